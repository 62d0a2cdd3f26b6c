"""What a probe is, its base class, and the hooks that every probe needs: exact undo, and waiting for an import."""

from __future__ import annotations

import functools
import gc
import importlib.abc
import inspect
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from types import CellType, CodeType, FunctionType, ModuleType, TracebackType
from typing import Any, Protocol, TypeVar

from kernelscope.errors import ProbeUnavailableError, message_of
from kernelscope.imports import LazyModule, call_after_import, imported, namespace_of
from kernelscope.native import core
from kernelscope.native.log import from_signal_handler
from kernelscope.probes.cost import Trial, measure
from kernelscope.probes.sink import Sink
from kernelscope.registry import entry_points


class ProbeProtocol(Protocol):
    """One framework's hooks, as a recording session uses them. A session installs and uninstalls each probe once.

    A probe writes to the sink only. It never lets an exception of its own reach user code
    (`Sink.swallow`), keeps no argument alive, and does nothing at a launch that was not measured there.
    `Probe` has all of this with defaults; a probe need not derive from it.
    """

    #: The name that health rows and ``kernelscope doctor`` show: that of the framework which its launches are of.
    name: str

    def install(self, sink: Sink, detail: str) -> None:
        """Hook the framework, or arrange to hook it when it is imported.

        Raises
        ------
        ProbeUnavailableError
            The framework cannot be hooked; the message says why. Whatever was hooked has been undone.
        """
        ...

    def uninstall(self) -> None:
        """Undo every hook; a hook that another wrapper now covers stays as a pass-through that records nothing."""
        ...

    def synchronize(self) -> str | None:
        """Wait for the device's work; return why it could not be done, or None. Never start CUDA for it."""
        ...

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Fill in what is asked only when recording has ended: registers, sizes, occupancy.

        Parameters
        ----------
        sink : Sink
            Where the rows to fill in are.
        used : iterable of (target id, configuration id)
            The distinct pairs that launches were made with.
        """
        ...

    def attach(self, kernel: Any) -> str | None:
        """Follow one kernel by documented means only, where `install` could not hook them all.

        Returns what is lost that way in one line, or None where everything is recorded anyway.
        """
        ...

    def cost_per_launch_ns(self, detail: str) -> float | None:
        """Measure what recording adds to one launch, in nanoseconds; None where nothing is hooked."""
        ...


class Patches:
    """Functions that do something else for a while, and exact undo.

    A plain function is given the hook's code and keeps its identity: whoever holds it is recorded, whoever wraps it
    is left alone, and no class changes. (A class that changes loses the interpreter's caches of its attributes, and
    CPython 3.12 and newer give up on caching them after 1,000 changes: launches would stay slower for good.) What is
    no plain function, or has a closure, is replaced as an attribute instead; `undo` restores it unless somebody has
    put another wrapper over it since.
    """

    def __init__(self) -> None:
        self._swapped: list[tuple[FunctionType, CodeType, Any, Any]] = []
        self._signed: list[FunctionType] = []
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._taken: list[tuple[str, Any]] = []

    def hook(self, owner: Any, name: str, make: Callable[[Any], Any], *, lend: bool = True) -> FunctionType | None:
        """Have ``owner.name`` run the hook that ``make(original)`` returns.

        Parameters
        ----------
        owner : class or module
            What has the attribute itself, not through a base class.
        name : str
            The attribute.
        make : callable
            Given a callable that does what the attribute did until now, returns the hook, a Python function.
        lend : bool
            False for a hook that needs its own globals, and so cannot lend its code: the attribute is replaced.

        Returns
        -------
        function or None
            The function that runs the hook's code now; None where the attribute was replaced.

        Raises
        ------
        AttributeError
            `owner` itself has no such attribute.
        """
        current, function = _own(owner, name)
        if lend and isinstance(function, FunctionType) and function.__closure__ is None:
            hook = make(copy_function(function))
            hook_codes.add(hook.__code__)
            self._swap(function, hook)
            return function
        replacement = make(current)
        hook_codes.add(replacement.__code__)
        self._replaced.append((owner, name, current, replacement))
        setattr(owner, name, replacement)
        return None

    def hook_all(self, hooks: Iterable[tuple[Any, str, Callable[[Any], Any]]]) -> list[str]:
        """Put hooks in as `hook` does, given its arguments each; return the names of functions that are not there."""
        missing: list[str] = []
        for owner, name, make in hooks:
            if callable(getattr(owner, "__dict__", {}).get(name)):
                self.hook(owner, name, make)
            else:
                missing.append(f"{getattr(owner, '__name__', owner)}.{name}")
        return missing

    def put(self, owner: Any, name: str, make: Callable[[Any], Any], *, take: bool = True) -> None:
        """Have ``owner.name`` run a native hook.

        Where CPython lets a Python function's calls run through something else (3.12), that is done and the function
        keeps its identity, its code and its place in tracebacks; elsewhere the attribute is replaced.

        Parameters
        ----------
        owner : class or module
            What has the attribute itself, not through a base class.
        name : str
            The attribute.
        make : callable
            Given a callable that does what the attribute did until now, returns the `kernelscope.native` hook.
        take : bool
            False for a hook that calls something else than what it is given: the attribute is replaced.

        Raises
        ------
        AttributeError
            `owner` itself has no such attribute.
        """
        current, function = _own(owner, name)
        if take and core.TAKES_FUNCTIONS and isinstance(function, FunctionType):
            self.take(f"{getattr(owner, '__name__', owner)}.{name}", make(function))
        else:
            hook = functools.update_wrapper(make(current), current)
            self._replaced.append((owner, name, current, hook))
            setattr(owner, name, hook)

    def take(self, name: str, hook: Any) -> None:
        """Have the calls of a Python function run through a native hook, wherever the function is bound.

        A function that stands under several names is taken once.
        """
        if any(taken.original is hook.original for _, taken in self._taken):
            return
        self._taken.append((name, hook))  # before: a Ctrl-C may come
        hook.take()

    def lend(self, function: FunctionType, hook: FunctionType) -> None:
        """Have `function` run the code of `hook` itself, with its keyword-only defaults; it shows its own signature.

        This is for hooks that take any arguments, and for functions with a closure: the hook must have as many free
        variables. What the function did, `copy_function` goes on doing.
        """
        hook_codes.add(hook.__code__)
        if "__signature__" not in vars(function) and "__wrapped__" not in vars(function):
            self._signed.append(function)
            vars(function)["__signature__"] = inspect.signature(function)
        self._swapped.append((function, function.__code__, function.__defaults__, function.__kwdefaults__))
        # Another thread may be calling: either code finds its own defaults there.
        function.__kwdefaults__ = {**(function.__kwdefaults__ or {}), **(hook.__kwdefaults__ or {})}
        function.__code__ = hook.__code__

    def undo(self) -> list[str]:
        """Restore in reverse order; return the names of attributes that another wrapper now covers."""
        # Each is forgotten after it was restored: what a Ctrl-C interrupts, the next call takes up.
        while self._swapped:
            function, code, defaults, keywords = self._swapped[-1]
            if function.__code__ in hook_codes:
                function.__code__ = code
            if function.__code__ is code:
                function.__defaults__, function.__kwdefaults__ = defaults, keywords
            self._swapped.pop()
        while self._signed:
            vars(self._signed[-1]).pop("__signature__", None)
            self._signed.pop()
        covered: list[str] = []
        while self._taken:
            name, hook = self._taken[-1]
            if not hook.give_back():
                covered.append(name)
            self._taken.pop()
        while self._replaced:
            owner, name, original, replacement = self._replaced[-1]
            _ended[replacement] = original
            _places[id(owner), name] = owner, name
            if vars(owner).get(name) is replacement:
                setattr(owner, name, original)
            elif vars(owner).get(name) is not original:
                covered.append(f"{getattr(owner, '__name__', owner)}.{name}")
            self._replaced.pop()
        return covered

    def _swap(self, function: FunctionType, hook: Any) -> None:
        self._swapped.append((function, function.__code__, function.__defaults__, function.__kwdefaults__))
        if hook.__closure__ is None:
            # Callers give every argument, so that the longer defaults mean nothing to the old code.
            function.__defaults__, function.__kwdefaults__ = hook.__defaults__, hook.__kwdefaults__
            function.__code__ = hook.__code__
        else:
            function.__kwdefaults__ = {"_kernelscope_hook": hook}
            function.__code__ = _hand_over.__code__


#: Hooks that stood in a function's place until their recording ended, and what was there before; others may hold them.
_ended: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
#: Where they stood: a class or module, and the name.
_places: dict[tuple[int, str], tuple[Any, str]] = {}


def remove_pass_throughs() -> None:
    """Put back what ended hooks stand for, where they are what an attribute is.

    Who puts a wrapper over a hook and takes it off again when the recording has ended puts back the hook, which is no
    more than a pass-through then.
    """
    for owner, name in list(_places.values()):
        current = found = vars(owner).get(name)
        while isinstance(found, (FunctionType, core.Hook)) and found in _ended:
            found = _ended[found]
        if found is not current:
            setattr(owner, name, found)


def _own(owner: Any, name: str) -> tuple[Any, Any]:
    """What `owner` itself has by that name, and that without the wrappers of others around it."""
    try:
        current = vars(owner)[name]
    except KeyError:
        raise AttributeError(f"{owner!r} has no attribute {name!r} of its own") from None
    return current, inspect.unwrap(current)


def _hand_over(*args: Any, _kernelscope_hook: Any, **kwargs: Any) -> Any:
    """What a function does whose hook has a closure, and so cannot lend its code.

    Of an exception that passes through, neither this frame is in the traceback nor the hook's. It runs with the globals
    of the function.
    """
    try:
        return _kernelscope_hook(*args, **kwargs)
    except BaseException as error:
        traceback = error.__traceback__.tb_next  # type: ignore[union-attr]
        while traceback is not None and traceback.tb_frame.f_globals is _kernelscope_hook.__globals__:
            traceback = traceback.tb_next
        error.__traceback__ = traceback
        raise


def copy_function(function: FunctionType, closure: tuple[CellType, ...] | None = None) -> FunctionType:
    """Return a function that goes on doing what `function` does now, with its free variables or those of `closure`."""
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__,
                        function.__closure__ if closure is None else closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    return copy


class ImportHook:
    """Calls back once when a module has been imported; costs nothing where it was imported already.

    Parameters
    ----------
    module : str
        Full name of the module to wait for.
    callback : callable
        Called with the module after it has run, in the importing thread.
    """

    def __init__(self, module: str, callback: Callable[[ModuleType], None]) -> None:
        self.module = module
        self.callback = callback

    def arm(self) -> None:
        """Call back now if the module is there, else when it is imported."""
        module = imported(self.module)
        if module is not None:
            self.callback(module)
        else:
            _finder.add(self)

    def disarm(self) -> None:
        """Stop waiting."""
        _finder.remove(self)


class ImportFinder(importlib.abc.MetaPathFinder):
    """Stands in ``sys.meta_path`` for all hooks that wait: every import of the process asks each finder there."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[ImportHook, ...]] = {}
        self._lock = threading.RLock()
        self._patches = Patches()

    def add(self, hook: ImportHook) -> None:
        """Have a hook called back when its module is imported, or has been meanwhile."""
        with self._lock:
            self._waiting[hook.module] = (*self._waiting.get(hook.module, ()), hook)
            if sys.meta_path[:1] != [self]:  # another tool's finder may have been put before it
                self._leave()
                sys.meta_path.insert(0, self)
                self._patches.hook(LazyModule, "__getattribute__", self._lazy)
        call_after_import(hook.module, self._imported)  # another thread may be importing it
        module = imported(hook.module)
        if module is not None:
            self._imported(hook.module, module)

    def remove(self, hook: ImportHook) -> bool:
        """Forget a hook; return whether it was waiting."""
        with self._lock:
            waiting = self._waiting.get(hook.module, ())
            left = tuple(each for each in waiting if each is not hook)
            if left:
                self._waiting[hook.module] = left
            else:
                self._waiting.pop(hook.module, None)
            if not self._waiting:
                self._leave()
            return len(left) < len(waiting)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """Find nothing; have the hooks called back if this is an import and succeeds."""
        if fullname in self._waiting:
            call_after_import(fullname, self._imported)

    def _imported(self, name: str, module: ModuleType) -> None:
        for hook in self._waiting.get(name, ()):
            if self.remove(hook):  # else another thread has called it back
                hook.callback(module)

    def _lazy(self, original: Callable[[ModuleType, str], Any]) -> Callable[[ModuleType, str], Any]:
        """Return the hook on the attributes of modules that are loaded at the first use of one."""
        def load(module: ModuleType, name: str) -> Any:
            try:
                return original(module, name)
            finally:
                if type(module) is not LazyModule:
                    for waiting in list(self._waiting):
                        if sys.modules.get(waiting) is module:
                            self._imported(waiting, module)

        return load

    def _leave(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self._patches.undo()


_finder = ImportFinder()


def clean(error: BaseException, hidden: frozenset[CodeType]) -> None:
    """Take our own hooks' frames out of an exception's traceback and of those that led to it."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = without_frames(each.__traceback__, hidden)
            waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def without_frames(traceback: TracebackType | None, hidden: frozenset[CodeType]) -> TracebackType | None:
    """Take our own hooks' frames out of a traceback, so that users see theirs only."""
    while traceback is not None and traceback.tb_frame.f_code in hidden:
        traceback = traceback.tb_next
    entry = traceback
    while entry is not None:
        following = entry.tb_next
        while following is not None and following.tb_frame.f_code in hidden:
            following = following.tb_next
        if following is not entry.tb_next:
            entry.tb_next = following
        entry = following
    return traceback


def hide_frame(error: BaseException) -> None:
    """Take the frame of the hook that handles an exception out of the traceback.

    A bare ``raise`` after it adds none, so that whoever catches the exception sees no frame of ours. Hooks whose code
    another function runs do the same in a line, for want of this module's globals.
    """
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


#: How often `insist` tries: more often than anybody presses Ctrl-C within one call.
_MOST_TRIES = 1000


def insist(undo: Callable[[], object]) -> BaseException | None:
    """Call what undoes something, and again where a signal handler raised in the middle of it.

    Parameters
    ----------
    undo : callable
        It takes up what an earlier call has left.

    Returns
    -------
    BaseException or None
        What the signal handler raised last.
    """
    interrupt: BaseException | None = None
    for _ in range(_MOST_TRIES):
        try:
            undo()
        except BaseException as error:
            if isinstance(error, Exception) and not from_signal_handler(error):
                raise
            interrupt = error
        else:
            return interrupt
    assert interrupt is not None
    raise interrupt  # it comes each time, and so from no signal


#: Code objects of hooks on the user's call path; `without_frames` takes them out of tracebacks.
hook_codes: set[CodeType] = {_hand_over.__code__}


# What a launch hook does with an exception: its own is kept from the user, and the launch is written all the same.

Found = TypeVar("Found")

# How often writing a launch is begun again after the user's signal handler raised in the middle of it.
_TRIES = 5


def looked_up(probe: str, sink: Sink, look: Callable[[], Found]) -> tuple[Found | None, BaseException | None]:
    """Look something up in the middle of a user's launch; what goes wrong with it is ours, and is counted.

    Parameters
    ----------
    probe : str
        The name that errors and dropped launches are counted under.
    sink : Sink
        Where they are counted.
    look : callable
        Looks up; it is called again where a signal handler raised in the middle of it, after a Ctrl-C once.

    Returns
    -------
    tuple of object or None and BaseException or None
        What was found, None where nothing could be; and what the user's signal handler raised meanwhile.
    """
    users: BaseException | None = None
    for _ in range(_TRIES):
        try:
            return look(), users
        except Exception as problem:
            if not from_signal_handler(problem):
                sink.swallow(probe, problem)
                break
            users = problem
        except BaseException as problem:  # a Ctrl-C; with a second one the user wants to get out, whatever it waits for
            is_second, users = users is not None, problem
            if is_second:
                break
    sink.dropped[probe] += 1
    return None, users


def ids(probe: str, sink: Sink, look: Callable[[], tuple[int, int] | None]) -> tuple[Any, ...] | None:
    """Look up two ids for a native hook whose launch has ended; see `looked_up`.

    Returns
    -------
    tuple or None
        The ids, and as a third value what the user's signal handler raised meanwhile; None where they cannot be had,
        or `look` says that there are none.

    Raises
    ------
    BaseException
        What the user's signal handler raised, where the ids cannot be had.
    """
    found, users = looked_up(probe, sink, look)
    if users is None:
        return found
    if found is None:
        raise users from None
    return *found, users


class NativeHooks(ABC):
    """The hooks in C on a framework's launch path; a subclass says where they are put and what they ask Python.

    Parameters
    ----------
    sink : Sink
        Where launches go.
    """

    #: The kind of the hook that a launch begins in.
    outermost: str
    #: So many launch configurations, and kernels, are known at most: they are held.
    most: int

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._hooks: dict[str, Any] = {}

    @abstractmethod
    def begin(self, *args: Any, **kwargs: Any) -> tuple[int, int] | None:
        """Return the ids of a launch that begins, of what is new; None where they cannot be had."""

    @abstractmethod
    def end(self, *args: Any, **kwargs: Any) -> tuple[Any, ...] | None:
        """Return the ids of a launch that has ended. See `ids`."""

    def disable(self) -> None:
        """Turn the hooks into pass-throughs, for wrappers that were put over them, and let go of what they hold."""
        for hook in self._hooks.values():
            hook.is_enabled = False
            hook.forget()
        self._hooks = {}  # they hold this: what they stand for is let go of now, not when garbage is collected

    def _begun(self, probe: str, table_key: Any, look: Callable[[], tuple[int, int]]) -> tuple[int, int] | None:
        """Look up the ids of a launch configuration that is new, which the hooks know from now on."""
        found, users = looked_up(probe, self.sink, look)
        if users is not None:
            raise users from None
        if found is not None:
            self._know("configurations", table_key, *found)
        return found

    def _know(self, table: str, key: Any, first: int, second: int, kind: str | None = None) -> None:
        hook = self._hooks.get(kind or self.outermost)
        if hook is not None:  # else the recording ended while this launch was under way
            hook.know(table, key, first, second)

    def _make(self, kind: str, begin: Callable[..., tuple[int, int] | None] | None = None) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
            self._hooks[kind] = self.sink.log.hook(kind, original, begin or self.begin, self.end, self.most)
            return self._hooks[kind]

        return make


# Functions that cannot lend their code, such as compiled ones: replaced wherever a name is bound to them.
#
# ``from library import launch`` copies a reference, so that replacing ``library.launch`` alone would miss it. Here
# every namespace, closure and ``functools.partial`` that holds the function is given the hook instead, and gets
# the function back. What holds it otherwise (a local variable of a running function, a tuple, an attribute of a
# slotted object) goes on calling it.

#: The attribute of a hook that names what it stands for.
_ORIGINAL = "_kernelscope_original"
#: Modules whose namespaces, and copies of them, are hooks' own.
_OUR_PROBES = "kernelscope.probes."


Place = tuple[Any, str]


class Bindings:
    """One function, replaced by a hook for a while.

    A search for what holds a function looks at every object that the garbage collector knows: 10 ms in a small process,
    100 ms in a large one. So there is none where the function's reference count says that modules hold it under its own
    name and nothing else does, as after its import, nor where it says that the places are still those of before.

    Parameters
    ----------
    namespace : dict
        A module's namespace that has the function. No variable of the caller's holds it: its references are counted.
    name : str
        The function's name there.
    make : callable
        Given the function, returns what is called instead.
    excludes : callable
        Given a namespace, returns whether it keeps the function: another probe records what it calls.
    """

    def __init__(self, namespace: dict[str, Any], name: str, make: Callable[[Any], Any],
                 excludes: Callable[[dict[str, Any]], bool] = lambda _: False) -> None:
        self._named = _named_only(namespace, name)  # before anything of ours holds the function
        self._function = namespace[name]
        self._hook = make(self._function)
        self._excludes = excludes
        self._own = {id(self._hook), *map(id, self._hook.__closure__ or ())}
        self._places: list[Place] = []
        self._left: list[Place] = []
        self._count = 0
        setattr(self._hook, _ORIGINAL, self._function)

    def put(self) -> None:
        """Replace the function by the hook everywhere."""
        known = _remembered.get(id(self._function))
        if known is not None and known[0] == sys.getrefcount(self._function) and _hold(self._function, known[1]):
            places = known[1]
        else:
            places = self._named or _search(self._function)
        # A native hook holds the function itself: kept among the places, it would be counted below.
        places = [place for place in places if id(place[0]) not in self._own]
        for place in places:
            if isinstance(place[0], dict) and self._excludes(place[0]):
                self._left.append(place)
                continue
            self._places.append(place)  # before: what a Ctrl-C interrupts is taken back too
            _bind(place, self._hook)
        self._count = sys.getrefcount(self._hook)

    def take_back(self) -> None:
        """Replace the hook by the function everywhere, also where it was bound to a name meanwhile."""
        places = self._places
        if sys.getrefcount(self._hook) != self._count or not _hold(self._hook, places):
            places = _search(self._hook)
        for place in places:
            _bind(place, self._function)
        places = places + self._left  # which another recording may not keep
        self._places, self._left = [], []
        # Closures and namespaces of modules only: what others hold would be kept alive for it.
        modules = _namespaces()
        if all(id(holder) in modules or isinstance(holder, CellType) for holder, _ in places):
            _remembered[id(self._function)] = sys.getrefcount(self._function), places
        else:
            _remembered.pop(id(self._function), None)


#: For a function's id its reference count after a hook was taken back, and the places that held it.
_remembered: dict[int, tuple[int, list[Place]]] = {}


def without_hook(function: Any) -> Any:
    """Return what a hook stands for; any other function as it is, also one that was given a hook's attributes."""
    if isinstance(function, core.Hook) or getattr(function, "__code__", None) in hook_codes:
        return getattr(function, _ORIGINAL, function)
    return function


def _named_only(namespace: dict[str, Any], name: str) -> list[Place]:
    """Return the modules' namespaces that hold a function by its name, if nothing else holds it; otherwise none."""
    found: list[Place] = [(space, name) for space in _namespaces().values() if space.get(name) is namespace[name]]
    one = _references({name: object()}, name)
    return found if _references(namespace, name) == one - 1 + len(found) else []


def _references(namespace: dict[str, Any], name: str) -> int:
    return sys.getrefcount(namespace[name])


def _search(function: Any) -> list[Place]:
    """Each namespace with the name, each closure's cell, each partial and each earlier hook that holds a function."""
    modules = _namespaces()
    found: list[Place] = []
    for holder in gc.get_referrers(function):
        if isinstance(holder, dict):
            # It may be of a class of the user's, whose methods are not called.
            module = dict.get(holder, "__name__")
            ours = type(module) is str and module.startswith(_OUR_PROBES)
            if (id(holder) in modules or dict.__contains__(holder, "__builtins__")) and not ours:
                found += [(holder, name) for name, value in list(dict.items(holder)) if value is function]
        elif isinstance(holder, CellType) or type(holder) is functools.partial or _is_hook(holder, function):
            found.append((holder, ""))
    return found


def _is_hook(holder: Any, function: Any) -> bool:
    """Whether it is a native hook that `Bindings` has put in, of a recording that somebody has kept it from."""
    if not isinstance(holder, core.Hook) or _ORIGINAL not in vars(holder):
        return False
    original = vars(holder)[_ORIGINAL]
    return original is function or original is getattr(function, _ORIGINAL, None)


def _namespaces() -> dict[int, dict[str, Any]]:
    """Modules' namespaces by identity; anything may stand in `sys.modules`."""
    found: list[Any] = list(sys.modules.values())
    spaces = [namespace_of(module) for module in found if issubclass(type(module), ModuleType)]
    return {id(space): space for space in spaces}


def _hold(function: Any, places: list[Place]) -> bool:
    return all(_bound(place) is function for place in places)


def _bound(place: Place) -> Any:
    holder, name = place
    if isinstance(holder, dict):
        return holder.get(name)
    if isinstance(holder, CellType):
        return holder.cell_contents
    return holder.func if isinstance(holder, functools.partial) else holder.original


def _bind(place: Place, function: Any) -> None:
    holder, name = place
    if isinstance(holder, dict):
        holder[name] = function
    elif isinstance(holder, CellType):
        holder.cell_contents = function
    elif isinstance(holder, core.Hook):
        holder.original = function
    else:
        holder.__setstate__((function, holder.args, holder.keywords, holder.__dict__ or None))


# The base class of probes.

class Probe:
    """A probe that hooks nothing: what a framework's probe does otherwise, it says in a subclass.

    A subclass needs a `name`, and `hook`, which is called with the framework's module as soon as that is imported.

    Attributes
    ----------
    patches : Patches
        For `hook`: what it holds is undone by `uninstall`, and when `hook` raises.
    sink : Sink or None
        Where records go; None before `install`.
    is_installed : bool
        Whether a recording is under way. A hook that stays in place under another wrapper records nothing without.
    is_idle : bool
        Whether the framework is not imported: no hook is there to undo, and nothing to ask for when recording stops.
    """

    name: str
    #: The module whose import `hook` waits for; by default it is called as the probe is.
    module: str | None = None
    #: What health says can be done where the framework cannot be hooked, or not all of it.
    fix: str | None = None

    def __init__(self) -> None:
        self.patches = Patches()
        self.sink: Sink | None = None
        self.is_installed = False
        self.is_idle = False
        # Another thread imports the framework while one uninstalls.
        self.lock = threading.RLock()
        self._import_hook: ImportHook | None = None
        self._is_hooked = False

    @property
    def is_hooked(self) -> bool:
        """Whether launches go, or went, through hooks, and so cost something."""
        return self._is_hooked

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook the framework, whose module has just been imported, through `patches`.

        Raises
        ------
        ProbeUnavailableError
            It is one that the probe does not know; the message says why, and becomes a row of health.
        """

    def unhook(self) -> None:
        """Undo what `hook` did, or what it did before it raised."""
        self.patches.undo()

    def trial(self, sink: Sink, patches: Patches) -> Trial | None:
        """Return what the cost of hooks is measured with: two launches that do nothing, the second of them hooked.

        Each is of objects of its own, and calls `kernelscope.probes.cost.other_work`. `patches` are undone
        afterwards. None where the cost is not worth telling, or not known.
        """
        return None

    def install(self, sink: Sink, detail: str) -> None:
        """Call `hook` now if the framework is imported, else when it is. See `ProbeProtocol.install`."""
        self.sink = sink
        self.is_installed = self.is_idle = True
        self._import_hook = ImportHook(self.module or self.name, lambda module: self._imported(module, sink))
        self._import_hook.arm()

    def uninstall(self) -> None:
        """Undo every hook. See `ProbeProtocol.uninstall`."""
        with self.lock:
            self.is_installed = False
            if self._import_hook is not None:
                self._import_hook.disarm()
            if not self.is_idle:
                self.unhook()

    def synchronize(self) -> str | None:
        """Have nothing to wait for. See `ProbeProtocol.synchronize`."""
        return None

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Have nothing to ask for. See `ProbeProtocol.describe`."""

    def attach(self, kernel: Any) -> str | None:
        """Have nothing to attach to. See `ProbeProtocol.attach`."""
        return None

    def cost_per_launch_ns(self, detail: str) -> float | None:
        """Measure the hooks of `trial`, if launches went through them. See `ProbeProtocol.cost_per_launch_ns`."""
        return self.measure_cost(detail) if self.is_hooked else None

    def measure_cost(self, detail: str) -> float | None:
        """Return what `measure` finds for `trial`; None without one."""
        if type(self).trial is Probe.trial:
            return None
        patches = Patches()
        try:
            user_code = None if self.sink is None else self.sink.user_code
            trial = self.trial(Sink(detail=detail, user_code=user_code), patches)
            return None if trial is None else measure(trial)
        finally:
            patches.undo()

    def report(self, sink: Sink, message: str, *, status: str = "degraded", fix: str | None = None) -> None:
        """Add a row to health: what is not recorded, and what can be done about it."""
        fix = fix or self.fix
        sink.health.append({"probe": self.name, "status": status, "message": message, **({"fix": fix} if fix else {})})

    def hook_launches(self, sink: Sink, owner: Any, name: str, record: Callable[..., None],
                      skip: Callable[..., bool] | None = None) -> None:
        """Have each call of a Python function timed, and given to `record` when it has ended.

        Parameters
        ----------
        sink : Sink
            Whose clock is read, and where errors of `record` are counted.
        owner : class or module
            What has the function.
        name : str
            The function's name there.
        record : callable
            ``(start_ns, end_ns, error, *args, **kwargs)``: the name of the exception's type that ended the call, or
            None, and the arguments of the call.
        skip : callable, optional
            Given the arguments, returns whether the call is no launch. What it raises is counted, and the call is
            not recorded.
        """
        now = sink.clock

        def is_skipped(ask: Callable[..., bool], *args: Any, **kwargs: Any) -> bool:
            try:
                return ask(*args, **kwargs)
            except Exception as problem:
                sink.guard(self.name, problem)
                return True

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def launch(*args: Any, **kwargs: Any) -> Any:
                if not self.is_installed or (skip is not None and is_skipped(skip, *args, **kwargs)):
                    return original(*args, **kwargs)
                failure: str | None = None
                start = now()
                try:
                    return original(*args, **kwargs)
                except BaseException as error:
                    failure = type(error).__name__
                    raise
                finally:
                    end = now()
                    try:
                        record(start, end, failure, *args, **kwargs)
                    except Exception as problem:
                        sink.guard(self.name, problem)

            return launch

        self.patches.hook(owner, name, make)

    def _imported(self, module: ModuleType, sink: Sink) -> None:
        """Hook a module that has just been imported; what goes wrong is a fact for health, not for the user."""
        try:
            with self.lock:
                if self.is_installed:
                    self.is_idle = False  # before: what a Ctrl-C interrupts is undone too
                    self.hook(module, sink)
                    self._is_hooked = True
        except ProbeUnavailableError as problem:
            self.unhook()
            self.report(sink, str(problem), status="unavailable")
        except Exception as problem:
            self.unhook()
            if from_signal_handler(problem):
                raise
            sink.swallow(self.name, problem)


def error_text(error: BaseException) -> str:
    """Return an exception's type and the first line of what it says, for a row of a compile or a build that failed."""
    lines = [line.strip() for line in message_of(error).splitlines() if line.strip()]
    # numba's "Failed in cuda mode pipeline (step: ...)" only says where; what is wrong stands below it.
    if len(lines) > 1 and lines[0].startswith("Failed in "):
        del lines[0]
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}".removesuffix(": ")


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the first three numbers of a version; () where it has none."""
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def refuse_older(package: str, version: str, oldest: str) -> None:
    """Raise `ProbeUnavailableError` where a version is older than `oldest`; one that is not known is none."""
    if version and numbers_of(version) < numbers_of(oldest):
        raise ProbeUnavailableError(f"{package} {version} is too old: {oldest} or newer is needed")


def signature_problems(
    module: ModuleType, checks: Iterable[tuple[str, list[str] | None, tuple[str, ...]]],
) -> list[str]:
    """Return how functions that hooks rely on differ from what they should be, in a line each.

    What another tool has wrapped is not looked at: it takes what callers give it, or their calls fail without us too.

    Parameters
    ----------
    module : module
        Where the functions are defined.
    checks : iterable of tuple
        A function's path, such as ``Class.method``; its parameters, or None for any; and names that its code uses.
    """
    problems: list[str] = []
    for path, wanted, uses in checks:
        *owners, name = path.split(".")
        owner = functools.reduce(lambda found, each: getattr(found, each, object), owners, module)
        function = vars(owner).get(name)
        function = getattr(function, "__func__", function)
        if not inspect.isfunction(function):
            problems.append(f"{module.__name__} has no function {path}")
            continue
        function = inspect.unwrap(function)
        if function.__module__ != module.__name__:
            continue
        found = list(inspect.signature(function).parameters)
        lacking = [each for each in uses if each not in function.__code__.co_names]
        if wanted is not None and found != wanted:
            problems.append(f"{path} takes ({', '.join(found)}), not ({', '.join(wanted)})")
        elif lacking:
            problems.append(f"{path} does not use {', '.join(lacking)}")
    return problems


def untried(package: str, version: str, tried: str) -> str:
    """Return what health says of a version that the hooks were not tried with, and that looks the same."""
    return (f"{package} {version or 'of an unknown version'} was not tried, {tried} were: its launches are recorded, "
            "and may lack something")


# Probes of other packages.

GROUP = "kernelscope.probes"
_METHODS = ("install", "uninstall", "synchronize", "describe", "attach", "cost_per_launch_ns")


def plugin_probes(taken: Collection[str]) -> tuple[list[ProbeProtocol], list[dict[str, Any]]]:
    """Return a new probe for each entry point, and rows of ``health`` for those that gave none.

    An entry point names a class, or a function without arguments, that makes the probe. The packages that are
    installed are looked through once a process.

    Parameters
    ----------
    taken : collection of str
        Names of the probes that there are already; another one of such a name is refused.
    """
    probes: list[ProbeProtocol] = []
    problems: list[dict[str, Any]] = []
    for entry in entry_points(GROUP):
        try:
            probe = _made(entry.load())
            if probe.name in {*taken, *(each.name for each in probes)}:
                raise ValueError(f"there is a probe called {probe.name!r} already")
        except Exception as problem:
            where = entry.dist.name if entry.dist is not None else entry.value
            problems.append({"probe": entry.name, "status": "unavailable",
                             "message": f"the probe of {where} is left out: {type(problem).__name__}: {problem}",
                             "fix": f"pip install --upgrade {where}, or uninstall it"})
        else:
            probes.append(probe)
    return probes, problems


def _made(maker: Callable[[], Any]) -> ProbeProtocol:
    probe = maker()
    missing = [name for name in _METHODS if not callable(getattr(probe, name, None))]
    if not isinstance(getattr(probe, "name", None), str):
        missing.insert(0, "name")
    if missing:
        raise TypeError(f"{type(probe).__name__} has no {', no '.join(missing)}")
    return probe
