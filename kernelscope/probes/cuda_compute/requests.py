"""Requests to cuda.compute's build cache: hit, miss or wait, the parts of the key, and what a miss built."""

from __future__ import annotations

import enum
import hashlib
import inspect
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from kernelscope.errors import CubinError
from kernelscope.native import core
from kernelscope.probes.base import Patches, copy_function, error_text, hide_frame, hook_codes
from kernelscope.probes.cuda_compute import hot
from kernelscope.probes.cuda_compute.calls import FRAMEWORK, name_of
from kernelscope.probes.sink import Sink

# The parts of a build's key by name: types, operators, iterators and options, and never a value of the user's.
#
# cuda.compute's own key says of each argument what the machine code depends on. An operator is known there by its
# name, its bytecode and constants, and what it captures: numbers by value, device arrays by dtype and shape, and
# anything else by its identity. Here numbers and objects are told apart by running numbers: ``int, value 2``.

Parts = dict[str, str]

_LONGEST = 200
_MOST_CAPTURED = 20
_ABSENT: Any = object()
# `OpKind` as it is called by itself, and in other builds of the library.
_OP_KINDS = ("cccl_op_kind_t", "OpKind")
# Of arguments, pointers are in the key of the built object only, and what it was built for has a part of its own.
_LEFT_OUT = ("compute_capability", "kwargs")


class KeyParts:
    """Names the parts of keys; tells values and objects apart by numbers that mean nothing outside this recording."""

    def __init__(self) -> None:
        self._values: dict[Any, int] = {}

    def of_call(self, factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Parts:
        """Return the parts of a request to `factory`, a ``make_*`` function.

        Raises
        ------
        TypeError
            The factory does not take these arguments.
        """
        bound = inspect.signature(factory).bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = {**bound.arguments, **bound.arguments.get("kwargs", {})}
        parts: Parts = {}
        for name, value in arguments.items():
            if name not in _LEFT_OUT and not name.endswith("_ptr"):
                parts |= {key: text[:_LONGEST] for key, text in self._of_argument(name, value)}
        return parts

    def _of_argument(self, name: str, value: Any) -> Iterator[tuple[str, str]]:
        if value is None:
            yield name, "none"
        elif is_operator(value):
            yield from self._of_operator(name, value)
        elif any(cls.__name__ == "IteratorBase" for cls in type(value).__mro__):
            yield from self._of_iterator(name, value)
        elif isinstance(value, enum.Enum):
            yield name, str(value.name)
        elif hasattr(value, "current") and hasattr(value, "alternate"):
            yield f"{name} kind", "DoubleBuffer"
            yield f"{name} dtype", _dtype(value.current())
        elif _is_array(value):
            yield f"{name} kind", f"{type(value).__module__}.{type(value).__qualname__}"
            yield f"{name} dtype", _dtype(value)
        elif isinstance(value, bool):
            yield name, str(value)
        elif type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "itemsize"):
            yield name, str(value)  # a dtype
        else:
            yield name, self._numbered(value)

    def _of_iterator(self, name: str, iterator: Any) -> Iterator[tuple[str, str]]:
        """The kind of an iterator: a tuple of names, types, operators and further tuples."""
        dtypes: list[str] = []
        operators: list[Any] = []
        yield f"{name} kind", _structure(iterator.kind, dtypes, operators)
        yield f"{name} dtype", ", ".join(dtypes)
        for number, operator in enumerate(operators):
            yield from self._of_operator(f"{name} op" if number == 0 else f"{name} op {number + 1}", operator)

    def _of_operator(self, name: str, operator: Any) -> Iterator[tuple[str, str]]:
        kind = getattr(operator, "_kind", operator)
        if type(kind).__name__ in _OP_KINDS:
            yield f"{name} kind", f"OpKind.{kind.name}"
            return
        function = getattr(operator, "py_func", None) or getattr(operator, "_func", None) or operator
        if isinstance(function, FunctionType):
            yield f"{name} kind", "function"
            yield f"{name} name", function.__name__
            yield f"{name} code", _digest(function.__code__)
            yield from self._captured(name, function)
        elif hasattr(operator, "_ltoir"):
            yield f"{name} kind", type(operator).__name__
            yield f"{name} name", str(operator._name)
            code = getattr(operator._ltoir, "op_bytes", operator._ltoir)
            yield f"{name} code", hashlib.sha256(bytes(code)).hexdigest()[:12]
            yield f"{name} state", f"{len(operator._state)} bytes"
        else:
            yield f"{name} kind", f"{type(operator).__name__}, {self._numbered(operator)}"

    def _captured(self, name: str, function: FunctionType) -> Iterator[tuple[str, str]]:
        """What an operator's key has of its closure, and of the globals that it names."""
        found: list[tuple[str, Any]] = []
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                found.append((f"{name} captured {variable}", cell.cell_contents))
            except ValueError:  # not assigned yet: the library fails on it
                continue
        for variable in function.__code__.co_names:
            value = function.__globals__.get(variable, _ABSENT)
            if value is not _ABSENT:
                found.append((f"{name} global {variable}", value))
        for label, value in found[:_MOST_CAPTURED]:
            yield label, self._captured_text(value)

    def _captured_text(self, value: Any) -> str:
        if _is_array(value):
            return f"{_dtype(value)} {tuple(int(size) for size in value.shape)}"
        inner = getattr(value, "py_func", None)
        if isinstance(inner, FunctionType):
            return f"function {inner.__name__}, code {_digest(inner.__code__)}"
        return self._numbered(value)

    def _numbered(self, value: Any) -> str:
        """A value or an object without saying which: equal ones have one number."""
        if isinstance(value, (bool, int, float)):
            return f"{type(value).__name__}, value {self._number((type(value), value))}"
        if hasattr(value, "tobytes") and hasattr(value, "dtype"):
            return f"{value.dtype}, value {self._number((str(value.dtype), value.tobytes()))}"
        if isinstance(value, (list, tuple)):
            inner = tuple(self._numbered(each) for each in value)
            return f"{type(value).__name__}, value {self._number((type(value), inner))}"
        shown = getattr(value, "__name__", None)
        kind = type(value).__name__ if not isinstance(shown, str) else f"{type(value).__name__} {shown}"
        return f"{kind}, object {self._number(('object', id(value)))}"

    def _number(self, key: Any) -> int:
        return self._values.setdefault(key, len(self._values) + 1)


def is_operator(value: Any) -> bool:
    """Return whether a value is what cuda.compute takes for an operator."""
    return (type(value).__name__ in _OP_KINDS or isinstance(value, FunctionType)
            or isinstance(getattr(value, "py_func", None), FunctionType)
            or any(cls.__name__ == "_OpAdapter" for cls in type(value).__mro__))


def _is_array(value: Any) -> bool:
    if (hasattr(value, "dtype") and hasattr(value, "shape")) or hasattr(type(value), "__cuda_array_interface__"):
        return True
    return any(cls.__name__ in ("_Struct", "ProxyValue", "ProxyArray") for cls in type(value).__mro__)


def _dtype(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        dtype = dict(value.__cuda_array_interface__).get("typestr", "unknown")
    return str(dtype)


def _structure(kind: Any, dtypes: list[str], operators: list[Any]) -> str:
    """The names in an iterator's kind; its dtypes and operators are put into the lists."""
    if isinstance(kind, tuple):
        inner = [_structure(each, dtypes, operators) for each in kind]
        shown = [each for each in inner if each]
        head = inner[0] if kind and isinstance(kind[0], str) else ""
        return f"{head}({', '.join(shown[1:])})" if head and len(shown) > 1 else head or ", ".join(shown)
    if is_operator(kind) or hasattr(kind, "_func"):
        operators.append(kind)
        return "op"
    if hasattr(kind, "dtype") or hasattr(kind, "_dtype"):
        dtypes.append(str(kind.dtype if hasattr(kind, "dtype") else kind._dtype))
        return ""
    if kind is True:  # whether an iterator is read from, which its argument tells
        return ""
    return str(kind) if isinstance(kind, (str, int)) else type(kind).__name__


def _digest(code: CodeType) -> str:
    """The start of a hash of bytecode and constants, which is what a key has of a function's code."""
    digest = hashlib.sha256()
    pending = [code]
    while pending:
        each = pending.pop()
        digest.update(each.co_code)
        for constant in each.co_consts:
            if isinstance(constant, CodeType):
                pending.append(constant)
            else:
                digest.update(f"{type(constant).__name__}:{constant!r};".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:12]


# Requests to cuda.compute's build cache: hit, miss or wait, what the key was, and what a miss built.
#
# A factory such as ``make_reduce_into`` looks in a cache of its thread first. Only where that has nothing does it
# run, and ask the process's cache of builds (`_cache_single_flight`), where one thread builds and the others wait
# for it.

_MOST_KERNELS = 50


@dataclass
class Under:
    """A factory that is running: what is known of its request so far; times in nanoseconds."""

    start: int
    built: bool = False
    waited: bool = False
    asked: bool = False
    build_ns: int = 0
    load_ns: int = 0
    capabilities: set[str] = field(default_factory=set[str])
    cubin_bytes: int = 0
    kernels: list[str] = field(default_factory=list[str])

    def absorb(self, inner: Under) -> None:
        """Add what a factory did that this one called."""
        self.asked |= inner.asked
        self.built |= inner.built or not inner.asked
        self.waited |= inner.waited
        self.build_ns += inner.build_ns
        self.load_ns += inner.load_ns
        self.capabilities |= inner.capabilities
        self.cubin_bytes += inner.cubin_bytes
        self.kernels += inner.kernels

    @property
    def outcome(self) -> str:
        """The schema's word; without a cache of builds, whoever runs the factory builds."""
        if self.built or not self.asked:
            return "miss"
        return "wait" if self.waited else "hit"


class _Threads(threading.local):
    def __init__(self) -> None:
        self.stack: list[Under] = []
        #: The one that ended last, until its request is written.
        self.last: Under | None = None


class Requests:
    """Hooks the factories and what they call, and writes a row for each request.

    Parameters
    ----------
    sink : Sink
        Where rows go.
    caching, interop : module
        ``cuda.compute._caching`` and ``cuda.compute._cccl_interop``.
    by_thread : bool
        Whether each thread has built objects of its own, so that what a hit returns tells its thread.
    """

    def __init__(self, sink: Sink, caching: ModuleType, interop: ModuleType, *, by_thread: bool) -> None:
        self.sink = sink
        self.caching = caching
        self.interop = interop
        #: By ``id()`` of what a factory returned. It needs no reference: whoever gets its id next is a miss first.
        self.known: dict[int, int] = {}
        self.parts = KeyParts()
        self._threads = _Threads()
        self._clears = 0
        # Of versions whose objects do not tell it themselves.
        self._capabilities: dict[int, str] = {}
        self._by_thread = by_thread

    def install(self, patches: Patches, factories: dict[str, FunctionType]) -> list[str]:
        """Put the hooks in; return what cannot be seen without the functions that this version does not have."""
        for name, factory in factories.items():
            self.hook_factory(patches, name, factory)
        lost: list[str] = []
        for owner, name, make, loss in (
            (self.caching, "_cache_single_flight", self._single_flight, "waits for another thread"),
            (self.interop, "call_build", self._build, "build times"),
            (self.interop, "call_compile", self._build, "build times ahead of time"),
            (self.caching, "clear_all_caches", self._clear, "clear_all_caches()"),
        ):
            if isinstance(vars(owner).get(name), FunctionType):
                patches.hook(owner, name, lambda original, make=make: _seen(make(original)))
            elif name != "call_compile" or hasattr(self.interop, "normalize_compute_capabilities"):
                lost.append(f"{loss} ({owner.__name__} has no function {name})")
        return lost

    def hook_factory(self, patches: Patches, name: str, factory: FunctionType) -> None:
        """Have requests to one factory written; it is a function around another, which is its second free variable."""
        # The library's function keeps its identity, and what it calls on a miss is ours: the second free variable.
        function = factory.__closure__[1].cell_contents  # type: ignore[index]
        closure = (factory.__closure__[0], CellType(_seen(self._running(function))))  # type: ignore[index]
        algorithm = algorithm_of(name)

        def settle(args: Any, kwargs: Any, start: int, result: Any) -> None:
            self._settle(algorithm, function, args, kwargs, start, result, None)

        def failed(args: Any, kwargs: Any, start: int, error: BaseException) -> None:
            self._settle(algorithm, function, args, kwargs, start, None, error)

        self._put(patches, factory, copy_function(factory, closure), settle, failed)

    def _put(self, patches: Patches, factory: FunctionType, copy: FunctionType, settle: Callable[..., None],
             failed: Callable[..., None]) -> None:
        """Have a factory's calls go to its `copy`, and be written; in C, where Python lets C have them."""
        if core.TAKES_FUNCTIONS:
            tools = copy, self.known, self.sink.builds.append
            patches.take(f"{factory.__module__}.{factory.__qualname__}",
                         self.sink.log.hook("request", factory, settle, failed, tools=tools))
            return
        template = hot.request_template(None, None)
        template.__kwdefaults__ = {
            "_ks_original": copy, "_ks_now": self.sink.clock, "_ks_known": self.known.get,
            "_ks_write": self.sink.builds.append, "_ks_settle": settle, "_ks_failed": failed}
        patches.lend(factory, template)

    def _running(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Around a factory's own function, which runs where its thread's cache has nothing."""
        now, threads, known = self.sink.clock, self._threads, self.known

        def make(*args: Any, **kwargs: Any) -> Any:
            under, depth = Under(now(), capabilities=self._asked_for(kwargs)), len(threads.stack)
            try:
                threads.stack.append(under)
                result = function(*args, **kwargs)
            except BaseException as error:
                hide_frame(error)
                raise
            finally:
                del threads.stack[depth:]
                threads.last = under
            known.pop(id(result), None)  # of something that is gone
            return result

        return make

    def _asked_for(self, kwargs: dict[str, Any]) -> set[str]:
        """What a factory is to build for: what it was given, or else the device that its cache has just asked for."""
        try:
            given = kwargs.get("compute_capability")
            if given is not None:
                return {".".join(map(str, each)) for each in self.interop.normalize_compute_capabilities(given)}
            device = getattr(getattr(self.caching, "_thread_local", None), "factory_device_info", None)
            return set() if device is None else {".".join(map(str, device.cc))}
        except Exception:
            return set()  # the library refuses it too, or is another version

    def _single_flight(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def single_flight(cache: Any, cache_key: Any, builder: Callable[[], Any]) -> Any:
            under = self._under()
            if under is None:
                return original(cache, cache_key, builder)
            start = self.sink.clock()
            if cache is not getattr(self.caching, "_process_wide_build_results_cache", None):
                result = original(cache, cache_key, builder)  # its machine code for this device
                under.load_ns += self.sink.clock() - start
                return result
            before = cache.get(cache_key)
            under.asked = True

            def build() -> Any:
                under.built = True
                try:
                    return builder()
                except BaseException as error:
                    hide_frame(error)
                    raise

            hook_codes.add(build.__code__)
            under.capabilities |= _capabilities(cache_key)
            built = under.built
            result = original(cache, cache_key, build)
            if under.built == built:  # somebody else built it: before this, or meanwhile
                under.waited |= before is None or type(before).__name__ == "_InFlightBuild"
            return result

        return single_flight

    def _build(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def build(*args: Any, **kwargs: Any) -> Any:
            start = self.sink.clock()
            result: Any = None
            try:
                result = original(*args, **kwargs)
                return result
            finally:
                under = self._under()
                if under is not None:
                    under.build_ns += self.sink.clock() - start
                    self._add_code(under, result, kwargs.get("cc"))

        return build

    def _add_code(self, under: Under, result: Any, capability: Any) -> None:
        try:
            under.built = True
            if capability is not None:
                under.capabilities.add(".".join(map(str, capability)))
            image = result._get_cubin() if hasattr(result, "_get_cubin") else None
            if image:
                under.cubin_bytes += len(image)
                from kernelscope import cubin

                code = cubin.read(bytes(image))
                under.capabilities.add(".".join(map(str, code.compute_capability)))
                under.kernels += [kernel.name for kernel in code.kernels]
        except CubinError:
            pass  # of a kind that is not known here: its size is
        except Exception as problem:
            self.sink.swallow(FRAMEWORK, problem)

    def _clear(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clear() -> Any:
            self._clears += 1
            return original()

        return clear

    def _under(self) -> Under | None:
        stack = self._threads.stack
        return stack[-1] if stack else None

    def _settle(self, algorithm: str, function: Callable[..., Any], args: Any, kwargs: Any, start: int, result: Any,
                error: BaseException | None) -> None:
        """Write a request that was no hit on something known, or let it be part of the request around it."""
        end = self.sink.clock()
        try:
            threads = self._threads
            stack, under = threads.stack, threads.last
            threads.last = None
            if under is not None and under.start < start:
                under = None  # of a request that a Ctrl-C kept from being written
            known: dict[str, Any] = {
                "framework": FRAMEWORK, "algorithm": algorithm if result is None else name_of(result),
                "thread_id": self.sink.state().thread_id,
                "compute_capability": None, "key_parts": None, "build_ns": 0, "outcome": "hit"}
            parts = self._parts(known, function, args, kwargs, result, under)
            if stack:
                if under is not None:
                    stack[-1].absorb(under)
            else:
                self.sink.builds.append({**known, **self._outcome(under, error), "start_ns": start, "end_ns": end})
                self.sink.flush()
            if error is None and self._by_thread and parts is not None:
                self.known[id(result)] = self.sink.builds.know(known)
        except Exception as problem:
            self.sink.swallow(FRAMEWORK, problem)

    def _parts(self, known: dict[str, Any], function: Callable[..., Any], args: Any, kwargs: Any, result: Any,
               under: Under | None) -> Parts | None:
        capabilities = set() if under is None else set(under.capabilities)
        results = getattr(getattr(result, "partitioner", result), "build_results", None)
        capabilities |= {_packed(key) for key in results} if isinstance(results, dict) else set()
        shown = ", ".join(sorted(capabilities, key=_order)) or self._capabilities.get(id(result))
        if result is not None and shown and not self._by_thread:
            self._capabilities[id(result)] = shown
        known["compute_capability"] = shown
        try:
            parts = self.parts.of_call(function, args, kwargs)
        except TypeError:  # arguments that it does not take: the library has said so
            return None
        except Exception as problem:
            self.sink.swallow(FRAMEWORK, problem)
            return None
        if known["compute_capability"]:
            parts["compute_capability"] = known["compute_capability"]
        known["key_parts"] = json.dumps(parts)
        return parts

    def _outcome(self, under: Under | None, error: BaseException | None) -> dict[str, Any]:
        """The columns of a row that its hits do not have."""
        row: dict[str, Any] = {}
        attributes: dict[str, Any] = {}
        if under is not None:
            row["outcome"] = under.outcome
            row["build_ns"] = under.build_ns if under.build_ns or under.outcome != "miss" else None
            row["cubin_bytes"] = under.cubin_bytes or None
            attributes |= {"kernels": under.kernels[:_MOST_KERNELS]} if under.kernels else {}
            attributes |= {"load_ns": under.load_ns} if under.load_ns else {}
        if error is not None:
            row |= {"outcome": "failed", "error": error_text(error)}
        if self._clears:
            attributes["clears"] = self._clears
        row["attributes"] = json.dumps(attributes) if attributes else None
        return row


def algorithm_of(factory: str) -> str:
    """Return the algorithm that a factory is for: ``reduce_into`` for ``make_reduce_into``."""
    return factory.strip("_").removeprefix("make_").removesuffix("_impl")


def _capabilities(cache_key: Any) -> set[str]:
    """What a key of the cache of builds is for: it has a tuple whose fields tell."""
    for each in cache_key if isinstance(cache_key, tuple) else ():
        fields = getattr(each, "_fields", ())
        if "cc_key" in fields:
            return {_packed(each.cc_key)}
        if "cc_keys" in fields:
            return {_packed(key) for key in each.cc_keys}
        if "cc" in fields:
            return {".".join(map(str, each.cc))}
    return set()


def _packed(key: int) -> str:
    return f"{key // 10}.{key % 10}"


def _order(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split(".") if part.isdigit())


def _seen(hook: Any) -> Any:
    hook_codes.add(hook.__code__)
    return hook
