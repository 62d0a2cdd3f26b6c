"""The parts of one launch, timed in the process of a target."""

from __future__ import annotations
import __future__

import ast
import contextlib
import copy
import gc
import inspect
import random
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from types import CodeType
from typing import Any, NamedTuple

from .timing import time_reference_ns

# The boundaries of a launch's parts: which a version has, which parts lie between them, and which cannot be seen.
#
# Standard library only; Python 3.9 and later.

ARGUMENTS = "arguments"
_RESULT = "_kernelscope_result"


class Boundaries:
    """The boundaries of a launch in one version of a framework.

    Parameters
    ----------
    path : Path
        Where a launch of the framework passes.

    Attributes
    ----------
    functions : dict of str to Source
        The framework's functions that have boundaries: ``entered`` and ``launched``.
    missing : dict of str to str
        Boundaries that this version does not have, and why.
    arguments : list of str
        What the launch's arguments are; `find` sets it.
    places : list of str
        The boundaries, in the order in which a launch passes them; `find` sets it.
    parts : list of dict
        What lies between them, and what cannot be seen, with the reason; `find` sets it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.missing: dict[str, str] = {}
        self.arguments: list[str] = []
        self.places: list[str] = []
        self.parts: list[dict[str, Any]] = []
        self.functions = self._find_functions()

    def find(self, arguments: list[str]) -> None:
        """Find the boundaries and parts of a launch with such arguments."""
        self.arguments = arguments
        self.places = self._find_places()
        self.parts = self._make_parts()

    def insert(self, tree: Any, source: Source, place: str, marks: list[Any]) -> None:
        """Put stamps at a boundary of a function."""
        if place in ("entered", "launched"):
            tree.body[source.first:source.first] = marks
        elif place in ("preparing", "prepared"):
            (body, at), = loops_that_call(tree, self.path.prepares)
            if place == "prepared":
                body[at + 1:at + 1] = marks
            else:
                split_loop(body, at, marks)
        else:
            for body, at in reversed(statements_that_call(tree, self.path.submits)):
                stamps = copy.deepcopy(marks)
                if place == "submit":
                    body[at:at] = stamps
                elif isinstance(body[at], ast.Return):
                    kept = ast.Assign(targets=[ast.Name(_RESULT, ast.Store())], value=body[at].value)
                    body[at:at + 1] = [kept, *stamps, *statements("return " + _RESULT)]
                else:
                    body[at + 1:at + 1] = stamps

    def split_turns(self, stamp: str) -> tuple[Source, Any]:
        """Return the function that launches, and its tree with a stamp before, in each turn of, and behind its loop."""
        source = self.functions["launched"]
        tree = source.tree()
        (body, at), = loops_that_call(tree, self.path.prepares)
        body[at].body[0:0] = statements(stamp)
        body[at + 1:at + 1] = statements(stamp)
        split_loop(body, at, statements(stamp))
        return source, tree

    def lose(self, key: str, reason: str) -> None:
        """Mark a part as not timed in this case: it is passed more than once a launch, or not in each."""
        for part in self.parts:
            if part["key"] == key or (key == ARGUMENTS and part["begin"] == "preparing"):
                part["reason"] = reason

    def lose_all(self, reason: str) -> None:
        """Mark all parts as not timed in this case."""
        for part in self.parts:
            if part["begin"] in self.places:
                part["reason"] = reason

    def is_once_a_launch(self, key: str) -> bool:
        """Return whether every launch passes the beginning of a part once."""
        begins = {part["key"]: part["begin"] for part in self.parts}
        return begins.get(key) in ("launched", "prepared", "submit", "submitted")

    def _find_functions(self) -> dict[str, Source]:
        """Return the functions that have boundaries, by name; `missing` says why one is not there."""
        module = sys.modules.get(self.path.module)
        found: dict[str, Source] = {}
        for name, (owner, method) in (("entered", self.path.entered), ("launched", self.path.launched)):
            function = vars(getattr(module, owner, object)).get(method)
            if function is None:
                self.missing[name] = f"this version has no {owner}.{method}"
                continue
            with contextlib.suppress(UnseenError):
                found[name] = Source(inspect.unwrap(function))
            if name not in found:
                self.missing[name] = f"{owner}.{method} is no plain Python function with a source"
        return found

    def _find_places(self) -> list[str]:
        """Return the names of the boundaries that this version has, in the order in which a launch passes them."""
        names = ["statement"]
        if "entered" in self.functions:
            names.append("entered")
        source = self.functions.get("launched")
        if source is not None:
            names.append("launched")
            tree = source.tree()
            if self.path.prepares is not None:
                if len(loops_that_call(tree, self.path.prepares)) == 1:
                    names += ["preparing", "prepared"] if self.arguments else ["prepared"]
                else:
                    self.missing["prepared"] = f"{source.name} has not one loop that calls {self.path.prepares}"
            if statements_that_call(tree, self.path.submits):
                names += ["submit", "submitted"]
            else:
                self.missing["submit"] = "{} calls none of {}".format(source.name, ", ".join(self.path.submits))
        return [*names, "end"]

    def _make_parts(self) -> list[dict[str, Any]]:
        """Return the parts, in order, and those that cannot be seen, each with the reason."""
        known = {("statement", "entered"): "configure", ("entered", "launched"): "dispatch",
                 ("launched", "preparing"): "set-up", ("launched", "prepared"): "set-up",
                 ("submit", "submitted"): "submit", ("submitted", "end"): "finish"}
        unseen = self._unseen()
        if self.path.prepares is None:
            known["launched", "submit"] = "set-up"
        elif CONFIGURATION not in unseen:
            known["prepared", "submit"] = CONFIGURATION
        parts: list[dict[str, Any]] = []
        others = 0
        for begin, end in zip(self.places, self.places[1:]):
            if begin == "preparing":
                parts += [_part(f"argument {index}", begin, end, note)
                          for index, note in enumerate(self.arguments)]
            elif (begin, end) in known:
                parts.append(_part(known[begin, end], begin, end))
            else:
                others += 1
                parts.append(_part(f"other {others}" if others > 1 else "other", begin, end,
                                   f"from {begin} to {end}"))
        had = {part["key"] for part in parts} | ({ARGUMENTS} if self.arguments == [] else set())
        had |= {ARGUMENTS} if "preparing" in self.places else set()
        for key, reason in unseen.items():
            if key not in had:
                # What the framework does inside of its driver call lies between the call's boundaries.
                inside = ("submit", "submitted") if key in self.path.unseen else ("", "")
                parts.append(_part(key, *inside, reason=reason))
        return parts

    def _unseen(self) -> dict[str, str]:
        """Return the parts that this version does not show, each with the reason."""
        unseen = dict(self.path.unseen)
        for name, parts in (("entered", ("configure", "dispatch")),
                            ("launched", ("dispatch", "set-up", "arguments", CONFIGURATION, "submit", "finish")),
                            ("prepared", ("set-up", "arguments", CONFIGURATION)),
                            ("submit", (CONFIGURATION, "submit", "finish"))):
            for part in parts:
                if name in self.missing:
                    unseen.setdefault(part, self.missing[name])
        source = self.functions.get("launched")
        if self.path.prepares is not None and source is not None and "LaunchConfig" not in source.names:
            unseen.setdefault(CONFIGURATION, f"{source.name} makes none")
        return unseen


def _part(key: str, begin: str = "", end: str = "", note: str = "", reason: str | None = None) -> dict[str, Any]:
    return {"key": key, "begin": begin, "end": end, "note": note, "reason": reason}


# Where a launch passes in each framework, and syntax trees of the framework's functions to put statements into.
#
# Standard library only; Python 3.9 and later.

_TURNS = "_kernelscope_turns"

CONFIGURATION = "configuration object"


class Path(NamedTuple):
    """The functions that a framework's launch passes, with the boundaries in them.

    Attributes
    ----------
    module : str
        Where the classes are.
    entered : tuple of str
        The class and method that a configured launch enters: dispatch begins.
    launched : tuple of str
        The class and method that launches a specialization: dispatch ends. It holds the places below.
    prepares : str or None
        The function that it calls for each argument, in a loop.
    submits : tuple of str
        The functions that it calls to give the launch to the driver, whichever it has.
    unseen : dict of str to str
        Parts that this framework does not show, and why.
    """

    module: str
    entered: tuple[str, str]
    launched: tuple[str, str]
    prepares: str | None
    submits: tuple[str, ...]
    unseen: dict[str, str]


PATHS = {
    "numba-cuda": Path("numba.cuda.dispatcher", ("CUDADispatcher", "call"), ("_Kernel", "launch"), "_prepare_args",
                       ("launch", "launch_kernel", "cuLaunchKernel", "cuLaunchKernelEx"), {}),
    "numba-cuda-mlir": Path(
        "numba_cuda_mlir.descriptor", ("_ArgMarshaller", "__call__"), ("_ArgMarshaller", "_launch"), None,
        ("launcher",),
        {"arguments": "numba-cuda-mlir prepares device arguments in native code: they are in submit",
         CONFIGURATION: "numba-cuda-mlir makes the launch's configuration in native code: it is in submit"}),
}


class UnseenError(Exception):
    """Raised when the source of a function cannot be read."""


class Source:
    """A function of the framework and its syntax tree, into which stamps are inserted."""

    def __init__(self, function: Any) -> None:
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType):
            raise UnseenError("it is no Python function")
        if code.co_freevars:
            raise UnseenError("it is a closure")
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        except (OSError, TypeError, SyntaxError) as error:
            raise UnseenError("its source cannot be read") from error
        definition: Any = tree.body[0]
        if not isinstance(definition, ast.FunctionDef) or definition.name != code.co_name:
            raise UnseenError("its source is no plain function")
        definition.decorator_list = []
        ast.increment_lineno(definition, code.co_firstlineno - 1)
        self.function = function
        self.name = getattr(function, "__qualname__", code.co_name)
        self.names = code.co_names
        self.first = 1 if ast.get_docstring(definition, clean=False) is not None else 0
        self._tree = definition
        if self.compile(self.tree()).co_freevars != code.co_freevars:
            raise UnseenError("it is a closure")

    def tree(self) -> Any:
        """Return a copy of the tree, to change."""
        return copy.deepcopy(self._tree)

    def compile(self, tree: Any) -> CodeType:
        """Return the code of the function with another tree."""
        code: CodeType = self.function.__code__
        features = code.co_flags & __future__.annotations.compiler_flag
        module = compile(ast.fix_missing_locations(ast.Module(body=[tree], type_ignores=[])), code.co_filename, "exec",
                         flags=features, dont_inherit=True)
        return next(each for each in module.co_consts if isinstance(each, CodeType) and each.co_name == code.co_name)


def statements(text: str) -> list[Any]:
    """Return the syntax trees of statements."""
    return ast.parse(text).body


def split_loop(body: list[Any], at: int, marks: list[Any]) -> None:
    """Put stamps between what a loop goes over being made and its first turn."""
    loop = body[at]
    made = ast.Assign(targets=[ast.Name(_TURNS, ast.Store())],
                      value=ast.Call(func=ast.Name("iter", ast.Load()), args=[loop.iter], keywords=[]))
    loop.iter = ast.Name(_TURNS, ast.Load())
    body[at:at] = [made, *marks]


def _bodies(tree: Any) -> Iterator[list[Any]]:
    """Yield the lists of statements of a function, without those of functions in it."""
    for field in ("body", "orelse", "finalbody"):
        body = getattr(tree, field, None)
        if isinstance(body, list):
            yield body
            for statement in body:
                if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    yield from _bodies(statement)
    for handler in getattr(tree, "handlers", ()):
        yield from _bodies(handler)


def loops_that_call(tree: Any, name: str | None) -> list[tuple[list[Any], int]]:
    """Return where the loops are that call a function: pairs of a list of statements and the place in it."""
    return [(body, at) for body in _bodies(tree) for at, statement in enumerate(body)
            if isinstance(statement, ast.For) and _has_call(statement, (name,))]


def statements_that_call(tree: Any, names: Sequence[str]) -> list[tuple[list[Any], int]]:
    """Return where the statements are that call one of some functions, as in `loops_that_call`."""
    return [(body, at) for body in _bodies(tree) for at, statement in enumerate(body)
            if isinstance(statement, (ast.Expr, ast.Assign, ast.Return)) and _has_call(statement, names)]


def _has_call(tree: Any, names: Sequence[str | None]) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", None)
            if name in names:
                return True
    return False


def described(local: dict[str, Any]) -> list[str]:
    """Return what the arguments of a launch are, as text, from the local names of the function that launches."""
    values = local.get("args", local.get("launch_args", ()))
    kernel: Any = local.get("self")
    types = getattr(kernel, "argument_types", None) or local.get("argtypes") or ()
    names: list[str] = []
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        names = list(inspect.signature(kernel.py_func).parameters)
    described: list[str] = []
    for index, value in enumerate(values):
        kind = str(types[index]) if index < len(types) else type(value).__name__
        name = names[index] if index < len(names) else ""
        described.append(f"{name}: {kind}" if name else kind)
    return described


# The parts of one launch, timed in the process of a target.
#
# A reading of the clock costs as much as a small part of a launch, so that a launch with all boundaries stamped
# would not be the launch that is asked about. Therefore a batch of launches has two stamps only: one where a part
# begins, one where it ends. Each part has its batches, as has the launch without any stamp, in fresh order in
# every round. What two stamps cost is measured in the same places: batches where both stand at the part's
# beginning. That is taken off. So that the parts add up to the bare launch is no matter of arithmetic: it is a
# check, and what is left over is reported. Arguments are the exception: where each one's turn begins is stamped
# in the same batch. A stamp in one turn of the loop and none in the others costs more than itself, because the
# processor guesses the way through the loop wrong.
#
# The stamps are statements that are put into copies of the framework's own functions (in their syntax trees),
# which then lend their code to the functions for a batch. So no wrapper is on the path, and what stands between
# two boundaries is what stands there without stamps. Where a boundary is not found in a version's source, the
# parts beside it are null, with the reason, and the time between the boundaries that are found is ``other``.
#
# Standard library only; Python 3.9 and later.

# What runs in a batch: the function with the loop, and the codes that the framework's functions borrow meanwhile.
Run = tuple[Callable[..., int], dict[str, CodeType]]
# A batch's time on the host, the cell of the stamps, and the list of stamps.
Batch = tuple[int, tuple[int, ...], tuple[int, ...]]
Times = dict[str, float]

# Names that the stamps use; in the globals of the functions that have some, for as long as a batch takes.
_CELL, _NOW, _SEE = "_kernelscope_cell", "_kernelscope_now", "_kernelscope_see"
_STAMP = "_kernelscope_stamp"
_LOOP = f"""\
def _run(_loops):
    _begin = {_NOW}()
    for _ in _loops:
        pass
    return {_NOW}() - _begin
"""
# [0] is when the part began, 0 outside of one; [1] the sum of its times; [2] how often it was passed.
_BEGIN = "if not {cell}[0]: {cell}[0] = {now}()"
_END = "if {cell}[0]:\n {cell}[1] += {now}() - {cell}[0]\n {cell}[0] = 0\n {cell}[2] += 1"
# A function whose code was swapped is specialized anew by the interpreter, and its callers too.
_WARM_LAUNCHES = 150
# How often each run's batch is repeated, once it is warm. Batches are much shorter than what the system gives another
# process at a time: most of them are undisturbed on a busy core too, and so is their median.
_REPEATS = 12
_BARE_RUNS = 3


def answer(bench: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Time each part of one launch of a case once.

    Parameters
    ----------
    bench : Bench
        The process: its framework and its cases.
    request : dict
        ``case``: the fields of `Case`; ``loops``: how many launches a batch has; ``seed``: of the batches' order;
        ``core`` and ``quiet_ns``, as a batch's request has them.

    Returns
    -------
    dict
        What `LaunchTimer.round` returns; ``core``, on which it ended; and ``parts``: the ``key``, where the part begins
        and ends, a ``note``, and the ``reason`` where it cannot be timed.
    """
    fields = request["case"]
    name = str(fields["name"])
    if name not in bench.cases:
        bench.prepare(request)
    case = bench.cases[name]
    taken: dict[int, LaunchTimer] = bench.__dict__.setdefault("anatomies", {})
    if id(case) not in taken:
        taken[id(case)] = LaunchTimer(
            fields["statement"], case.names, bench.framework.name, fields.get("before") or "",
            fields.get("after") or "", fields.get("most_loops"), bench.framework.synchronize)
    anatomy = taken[id(case)]
    bench.quiet.go(request.get("core"))
    anatomy.settle = lambda: bench.quiet.seek(bench.quiet.core, request.get("quiet_ns"))
    times = anatomy.round(int(request["loops"]), request.get("seed"))
    return {**times, "core": bench.quiet.core, "parts": anatomy.parts}


class LaunchTimer:
    """Times the parts of one case's launch.

    Parameters
    ----------
    statement : str
        What one launch is.
    namespace : dict
        Where it runs: the case's, after its setup and at least one launch.
    framework : str
        ``numba-cuda`` or ``numba-cuda-mlir``.
    before, after : str
        What runs directly before and after each batch, untimed.
    most_loops : int or None
        The most launches that a batch may have.
    synchronize : callable or None
        Waits for the device; called before and after each batch.
    clock : callable
        Returns nanoseconds.

    Attributes
    ----------
    settle : callable
        Finds a quiet moment before the batches of each kind.
    """

    def __init__(self, statement: str, namespace: dict[str, Any], framework: str, before: str = "", after: str = "",
                 most_loops: int | None = None, synchronize: Callable[[], object] | None = None,
                 clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.namespace = namespace
        self.most_loops = most_loops
        self._clock = clock
        self.settle: Callable[[], object] = lambda: None
        self._cell = [0, 0, 0]
        self._stamps: list[int] = []
        self._synchronize: Callable[[], object] = synchronize or (lambda: None)
        self._before = compile(before, "<before>", "exec") if before.strip() else None
        self._after = compile(after, "<after>", "exec") if after.strip() else None
        self._statement: list[Any] = ast.parse(textwrap.dedent(statement)).body
        self._boundaries = Boundaries(PATHS[framework])
        self._lost: set[str] = set()
        self._boundaries.find(self._look())
        self._runs = self._make_runs()

    def round(self, loops: int, seed: int | None = None) -> dict[str, Any]:
        """Time every part once, in fresh order.

        Parameters
        ----------
        loops : int
            How many launches a batch has.
        seed : int, optional
            For the order.

        Returns
        -------
        dict
            ``bare_ns``: a launch without stamps; ``parts_ns`` and ``stamps_ns``, by the parts' keys: its time with the
            stamps' and the stamps' alone, of one launch.
        """
        if self.most_loops is not None:
            loops = min(loops, self.most_loops)
        order = [("bare", "")] * _BARE_RUNS + [("empty", "")]
        order += [(kind, key) for kind, key in self._runs if kind not in ("bare", "empty") and key not in self._lost]
        random.Random(seed).shuffle(order)
        bare: list[float] = []
        empty = 0.0
        parts: Times = {}
        stamps: Times = {}
        was_enabled = gc.isenabled()
        gc.collect()
        gc.disable()
        try:
            for kind, key in order:
                if key in self._lost and (kind == "part" or not self._boundaries.is_once_a_launch(key)):
                    continue  # the stamps alone still tell how often the statement launches
                batches = self._batches(self._runs[kind, key], loops, _REPEATS)
                if kind == "bare":
                    bare += [host_ns / loops for host_ns, _, _ in batches]
                elif kind == "empty":
                    empty = _median([host_ns / loops for host_ns, _, _ in batches])
                elif key == ARGUMENTS:
                    self._take_turns(batches, loops, kind == "stamps", parts if kind == "part" else stamps)
                else:
                    self._take(key, batches, loops, kind == "stamps", parts if kind == "part" else stamps)
        finally:
            if was_enabled:
                gc.enable()
        alive = [part["key"] for part in self.parts if part["reason"] is None]
        return {"loops": loops, "bare_ns": _median(bare) - empty, "loop_ns": empty,
                "parts_ns": {key: parts[key] for key in alive}, "stamps_ns": {key: stamps[key] for key in alive}}

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Return the parts of the launch, in order, and those that cannot be timed, with the ``reason``."""
        return self._boundaries.parts

    def _look(self) -> list[str]:
        """Launch once, and return the types of the arguments."""
        seen: list[list[str]] = []
        source = self._boundaries.functions.get("launched")
        if source is not None:
            tree = source.tree()
            tree.body[source.first:source.first] = statements(f"{_SEE}(locals())")
            codes = {"launched": source.compile(tree)}
            self._batches((self._loop(), codes), 1, see=lambda local: seen.append(described(local)))
        return seen[0] if seen else []

    def _lose(self, key: str, reason: str) -> None:
        self._lost.add(key)
        self._boundaries.lose(key, reason)

    def _take(self, key: str, batches: list[Batch], loops: int, together: bool, times: Times) -> None:
        """Enter the time of a part, or of its stamps, of one launch; or find that there is no such time."""
        passed = {cell[2] for _, cell, _ in batches}
        is_once = passed == {loops}
        if together and not is_once and self._boundaries.is_once_a_launch(key):
            launches = "{} launch{}".format(max(passed), "es" * (max(passed) > 1)) if max(passed) else "no launch"
            self._boundaries.lose_all("the statement launches not once: {} in {} run{} of it".format(
                launches, loops, "s" * (loops != 1)))
            self._lost.update([ARGUMENTS, *(part["key"] for part in self.parts)])
        elif is_once or (together and min(passed) > 0):
            # A boundary may be passed twice, as on the way to a dispatcher for one launch configuration; then the
            # stamps were there twice.
            times[key] = _median([total / count for _, (_, total, count), _ in batches])
        else:
            self._lose(key, "passed {} time{} in {} launch{}".format(
                max(passed), "s" * (max(passed) != 1), loops, "es" * (loops != 1)))

    def _take_turns(self, batches: list[Batch], loops: int, together: bool, times: Times) -> None:
        """Enter the times of the arguments, of one launch: a stamp before the loop, in each turn, and behind it."""
        turns = len(self._boundaries.arguments)
        each = (turns + 2) * (2 if together else 1)
        if any(len(stamps) != loops * each for _, _, stamps in batches):
            self._lose(ARGUMENTS, "{} not taken one after the other".format(
                "1 argument was" if turns == 1 else f"{turns} arguments were"))
            return
        sums = [[sum(stamps[at + 1::each]) - sum(stamps[at::each]) for at in range(each - 1)]
                for _, _, stamps in batches]
        between = [_median([batch[at] / loops for batch in sums]) for at in range(each - 1)]
        if together:
            between = between[::2]
        for index in range(turns):
            # What the loop does before the first turn is the first argument's.
            times[f"argument {index}"] = between[index + 1] + (between[0] if index == 0 else 0.0)

    def _make_runs(self) -> dict[tuple[str, str], Run]:
        """Return what runs in each kind of batch: the loop's function, and the code of the others."""
        runs: dict[tuple[str, str], Run] = {
            ("bare", ""): (self._loop(), {}), ("empty", ""): (self._loop(statement=statements("pass")), {})}
        for part in self.parts:
            begin, end = part["begin"], part["end"]
            for kind, together in (("part", False), ("stamps", True)):
                if part["reason"] is None and begin != "preparing":
                    runs[kind, part["key"]] = self._stamped(begin, end, together)
                elif part["reason"] is None:
                    # A run with a stamp before the loop over arguments, in each turn of it, and behind it.
                    stamp = f"{_STAMP}({_NOW}())\n" * (2 if together else 1)
                    source, tree = self._boundaries.split_turns(stamp)
                    runs[kind, ARGUMENTS] = (self._loop(), {"launched": source.compile(tree)})
        return runs

    def _stamped(self, begin: str, end: str, together: bool) -> Run:
        """Return a run with a stamp at `begin` and one at `end`, or, `together`, both at `begin`."""
        first, last = _stamp(_BEGIN), _stamp(_END)
        marks = [(begin, first + last)] if together else [(end, last), (begin, first)]
        around = dict(marks)
        loop = self._loop(around.get("statement", ()), around.get("end", ()))
        codes: dict[str, CodeType] = {}
        for name, source in self._boundaries.functions.items():
            tree, original = source.tree(), source.tree()
            for place, stamps in marks:
                if place not in ("statement", "end") and (place == "entered") == (name == "entered"):
                    self._boundaries.insert(tree, source, place, stamps)
            if ast.dump(tree) != ast.dump(original):
                codes[name] = source.compile(tree)
        return loop, codes

    def _loop(self, before: Sequence[Any] = (), behind: Sequence[Any] = (),
              statement: list[Any] | None = None) -> Callable[..., int]:
        """Return the function that launches in a loop, with stamps before and behind the statement."""
        module: Any = ast.parse(_LOOP)
        body = self._statement if statement is None else statement
        module.body[0].body[1].body = [*copy.deepcopy(list(before)), *copy.deepcopy(body),
                                       *copy.deepcopy(list(behind))]
        scope = self.namespace
        made: dict[str, Any] = {}
        exec(compile(ast.fix_missing_locations(module), "<anatomy>", "exec"), scope, made)
        return made["_run"]

    def _batches(self, run: Run, loops: int, repeats: int = 1,
                 see: Callable[[dict[str, Any]], object] | None = None) -> list[Batch]:
        """Run batches; return of each its time on the host, the cell of the stamps, and the list of stamps."""
        function, codes = run
        functions = {name: self._boundaries.functions[name].function for name in codes}
        scopes = [self.namespace, *(function.__globals__ for function in functions.values())]
        added: dict[str, Any] = {_CELL: self._cell, _NOW: self._clock, _SEE: see, _STAMP: self._stamps.append}
        own = {name: each.__code__ for name, each in functions.items()}
        done: list[Batch] = []
        references: list[int] = []
        try:
            for scope in scopes:
                scope.update(added)
            for name, code in codes.items():
                functions[name].__code__ = code
            if see is None:
                self.settle()
                self._run(function, min(_WARM_LAUNCHES, self.most_loops or _WARM_LAUNCHES))
            for _ in range(repeats):
                self._cell[:] = [0, 0, 0]
                self._stamps.clear()
                before_ns = time_reference_ns()
                done.append((self._run(function, loops), tuple(self._cell), tuple(self._stamps)))
                references.append(max(before_ns, time_reference_ns()))
            # The batches that are the most quiet ones, half of them, in their order.
            slowest = sorted(references)[(len(references) - 1) // 2]
            return [batch for batch, reference in zip(done, references) if reference <= slowest]
        finally:
            for name, code in own.items():
                functions[name].__code__ = code
            for scope in scopes:
                for name in added:
                    scope.pop(name, None)

    def _run(self, function: Callable[..., int], loops: int) -> int:
        self._synchronize()
        if self._before is not None:
            exec(self._before, self.namespace)
        try:
            return function(repeat(None, loops))
        finally:
            if self._after is not None:
                exec(self._after, self.namespace)
            self._synchronize()


def _stamp(text: str) -> list[Any]:
    return statements(text.format(cell=_CELL, now=_NOW))


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
