"""The probe of JAX: compiles, by the listeners of ``jax.monitoring``. Its launches are those that CUPTI reports."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import json
import sys
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.compiles import CompileProbe, CompileRows, code_hash, short_text
from kernelscope.probes.sink import Sink

FRAMEWORK = "jax"
_TRACE, _LOWER, _COMPILE = (f"/jax/core/compile/{name}_duration" for name in (
    "jaxpr_trace", "jaxpr_to_mlir_module", "backend_compile"))
_STAGES = {_TRACE: "trace", _LOWER: "lower to StableHLO", _COMPILE: "XLA"}
_HIT = "/jax/compilation_cache/cache_hits"
_LISTENERS = ("register_scalar_listener", "unregister_scalar_listener", "register_event_duration_secs_listener",
              "unregister_event_duration_listener", "register_event_listener", "unregister_event_listener")
_TRACE_PARAMETERS = ["fun", "ji", "ctx_mesh", "dbg", "avals", "args", "kwargs"]
_LOWER_PARAMETERS = ["args", "jaxpr"]

# What JAX times it tells listeners of, with the function's name: the public interface. That says neither what was
# passed nor which function of the name it was: the function that traces does, and the one that lowers says on which
# devices. ``jax_explain_cache_misses`` would log reasons as warnings, and setting it would change the user's
# configuration; so reasons are told from what differs, as for CuPy.


class JaxProbe(CompileProbe):
    """Listens to JAX where it is imported, or as soon as it is."""

    name = FRAMEWORK
    versions = ("0.11",)
    fix = "pip install 'jax>=0.11,<0.12'"

    def __init__(self) -> None:
        super().__init__()
        self._listeners: list[tuple[Callable[[Any], None], Any]] = []

    def hook(self, module: Any, sink: Sink) -> None:
        """Listen to the compiles. See `Probe.hook`."""
        version = str(getattr(module, "__version__", ""))
        monitoring, pjit = (sys.modules.get(f"jax._src.{name}") for name in ("monitoring", "pjit"))
        if not all(hasattr(monitoring, name) for name in _LISTENERS):
            raise ProbeUnavailableError(self.other_version("jax", version, "other listeners than this probe knows"))
        self._hooks = hooks = JaxHooks(sink)
        for register, unregister, listener in zip(_LISTENERS[::2], _LISTENERS[1::2], (
                hooks.began, hooks.ended, hooks.happened), strict=True):
            self._listeners.append((getattr(monitoring, unregister), listener))  # before: a Ctrl-C may come
            getattr(monitoring, register)(listener)
        missing: list[str] = []
        for name, wanted, make in (("_trace_for_jit", _TRACE_PARAMETERS, hooks.make_trace),
                                   ("_resolve_and_lower", _LOWER_PARAMETERS, hooks.make_lower)):
            function = inspect.unwrap(getattr(pjit, name, len))
            if inspect.isfunction(function) and [*inspect.signature(function).parameters][:len(wanted)] == wanted:
                self.patches.hook(pjit, name, make)
            else:
                missing.append(name)
        if missing:
            self.report(sink, f"jax {version} has another {' and '.join(missing)}: its compiles are recorded without "
                        "what was passed, and so without reasons")
        else:
            self.report_version(sink, "jax", version)

    def unhook(self) -> None:
        """Undo every hook. See `Probe.unhook`."""
        if self._hooks is not None:
            self._hooks.enabled = False  # before the listeners go
        while self._listeners:
            unregister, listener = self._listeners[-1]
            # Somebody may have cleared all listeners, or a Ctrl-C came before it was one.
            with contextlib.suppress(AssertionError, ValueError):
                unregister(listener)
            self._listeners.pop()
        super().unhook()


class JaxHooks(CompileRows):
    """Records every compile and every load from the persistent compilation cache while enabled."""

    framework = FRAMEWORK

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._functions: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._numbers = itertools.count()

    # The listeners. JAX calls them on the thread that compiles; what they raise would reach the user.

    def began(self, event: str, value: float, **said: Any) -> None:
        """Hear of the start of a stage."""
        if event in _STAGES and self.enabled:
            here = self._here()
            here.under_way.append((event, self._sink.clock(), sys.exception()))
            if event == _COMPILE:
                here.is_hit = False
            elif event == _TRACE and here.traces:
                here.traces[-1]["is_outermost"] = True

    def ended(self, event: str, seconds: float, **said: Any) -> None:
        """Hear of the end of a stage."""
        if event not in _STAGES or not self.enabled:
            return
        end = self._sink.clock()
        try:
            here = self._here()
            before = None
            start = end - round(seconds * 1e9)
            if here.under_way and here.under_way[-1][0] == event:
                _, start, before = here.under_way.pop()
            name = str(said.get("fun_name", "unknown"))
            name = name[4:-1] if name.startswith("jit(") else name.removeprefix("jit_")
            error = sys.exception()
            stage = {"kind": "phase", "name": _STAGES[event], "start_ns": start, "duration_ns": end - start}
            known = here.known.setdefault(name, {"stages": []})
            if event == _TRACE:
                known["stages"] = []
            known["stages"].append(stage)
            if event == _COMPILE:
                stages, known["stages"] = known["stages"], []
                self._write(name, here, stages, end, None if error is before else error)
        except Exception as problem:
            self.swallow(problem)

    def happened(self, event: str, **said: Any) -> None:
        """Hear that the persistent cache had what was asked for."""
        if event == _HIT and self.enabled:
            self._here().is_hit = True

    def make_trace(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of ``_trace_for_jit``."""
        def _trace_for_jit(fun: Any, ji: Any, ctx_mesh: Any, dbg: Any, avals: Any, args: Any, kwargs: Any) -> Any:
            if not self.enabled:
                return original(fun, ji, ctx_mesh, dbg, avals, args, kwargs)
            here = self._here()
            trace: dict[str, Any] = {"is_outermost": False}
            here.traces.append(trace)
            failure: BaseException | None = None
            start = self._sink.clock()
            try:
                return original(fun, ji, ctx_mesh, dbg, avals, args, kwargs)
            except BaseException as error:
                failure = error
                raise
            finally:
                here.traces.pop()
                try:
                    if trace["is_outermost"]:  # others are parts of it
                        self._traced(here, fun, ji, dbg, avals, args, kwargs, failure, start)
                except Exception as problem:
                    self.swallow(problem)

        return _trace_for_jit

    def make_lower(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of ``_resolve_and_lower``."""
        def _resolve_and_lower(args: Any, *more: Any, **given: Any) -> Any:
            if self.enabled:
                try:
                    known = self._here().known.get(str(given.get("name")))
                    if known is not None:
                        known["placed"] = [
                            _placed(each.sharding) if each.committed else None for each in args]
                except Exception as problem:
                    self.swallow(problem)
            return original(args, *more, **given)

        return _resolve_and_lower

    def _traced(self, here: _Here, fun: Any, ji: Any, dbg: Any, avals: Any, args: Any, kwargs: Any,
                failure: BaseException | None, start: int) -> None:
        """Keep what was traced until it is compiled; a trace that failed is a row at once."""
        name = str(getattr(fun, "__name__", type(fun).__name__))
        known = here.known.setdefault(name, {"stages": []})
        known.pop("placed", None)
        known.update(key=self._key(fun, name), held=key_of(fun, ji, dbg, avals, args, kwargs), **_of_function(fun))
        if failure is not None:
            self._write(name, here, known["stages"] or [{"start_ns": start}], self._sink.clock(), failure)
            known["stages"] = []

    def _key(self, fun: Any, name: str) -> Any:
        """Tell one function from another of its name, also where one has been freed before the other was made."""
        if _is_jaxs(fun):
            return name
        try:
            return self._functions.setdefault(fun, next(self._numbers))
        except TypeError:
            return id(fun)

    def _write(self, name: str, here: _Here, stages: list[dict[str, Any]], end: int,
               error: BaseException | None) -> None:
        known = here.known.get(name, {})
        found: dict[str, Any] = known.get("held") or {"arguments": {}, "constants": {}, "options": {}}
        held: dict[str, Any] = {**found, "code": known.get("code")}
        arguments = {each: dict(told) for each, told in held["arguments"].items()}
        for told, placed in zip(arguments.values(), known.get("placed", ()), strict=False):
            if placed:
                told["placement"] = placed
        held["arguments"] = arguments
        outcome = "failed" if error is not None else "disk" if here.is_hit else "compiled"
        here.is_hit = False
        self.add(
            (name, known.get("key")),
            {"name": name, "arguments": ", ".join(arguments),
             **{column: known.get(column) for column in ("module", "filename", "lineno")},
             "attributes": json.dumps({"owner": known.get("owner", "library")})},
            held, signature_text(held), stages[0]["start_ns"], end, outcome, error,
            [stage for stage in stages if "name" in stage], has_key=known.get("held") is not None)

    def _here(self) -> _Here:
        here = getattr(self._local, "here", None)
        if here is None:
            here = self._local.here = _Here()
        return here


class _Here:
    """What is under way on a thread, and what it has traced, by the names that JAX gives."""

    def __init__(self) -> None:
        self.under_way: list[tuple[str, int, BaseException | None]] = []
        self.traces: list[dict[str, Any]] = []
        self.known: dict[str, dict[str, Any]] = {}
        self.is_hit = False


# What a call was made with.

def key_of(fun: Any, ji: Any, dbg: Any, avals: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return what decides about a trace: arguments by name, static ones and parameters of primitives, options.

    Parameters
    ----------
    fun, ji, dbg, avals, args, kwargs : object
        What ``jax._src.pjit._trace_for_jit`` is given.
    """
    names = getattr(dbg, "arg_names", None) or [f"argument {at}" for at in range(len(avals))]
    is_primitive = bool(getattr(fun, "_apply_primitive", False))
    constants = {} if is_primitive else static_arguments(fun, ji, args, kwargs)
    if is_primitive:
        parameters = inspect.getclosurevars(fun).nonlocals.get("params", {})
        constants |= {str(name): short_text(repr(value)) for name, value in parameters.items()}
    options = {str(name): short_text(repr(value)) for name, value in getattr(ji, "compiler_options_kvs", ())}
    for name in ("donate_argnums", "device", "backend", "keep_unused"):
        value = getattr(ji, name, None)
        if value:
            options[name] = short_text(repr(value))
    return {"arguments": {str(name): argument(aval) for name, aval in zip(names, avals, strict=False)},
            "constants": constants, "options": options, **({"primitive": True} if is_primitive else {})}


def argument(aval: Any) -> dict[str, Any]:
    """Return what JAX traces for: type, dimensions, shape, and whether it is a plain number of Python's."""
    if not hasattr(aval, "shape"):
        return {"type": str(aval)}
    told = {"type": str(aval.dtype), "ndim": len(aval.shape), "shape": [str(each) for each in aval.shape]}
    return {**told, "weak": True} if getattr(aval, "weak_type", False) else told


def static_arguments(fun: Any, ji: Any, args: Any, kwargs: Any) -> dict[str, str]:
    """Return the texts of static arguments by name."""
    numbers, names = getattr(ji, "static_argnums", ()), getattr(ji, "static_argnames", ())
    if not numbers and not names:
        return {}
    signature = ji.fun_signature or inspect.signature(fun)
    parameters = [*signature.parameters]
    given = {**{name: each.default for name, each in signature.parameters.items() if each.default is not each.empty},
             **dict(zip(parameters, args, strict=False)), **kwargs}
    static = {*names, *(parameters[at] for at in numbers if -len(parameters) <= at < len(parameters))}
    return {name: short_text(repr(given[name])) for name in parameters if name in static and name in given}


def signature_text(held: dict[str, Any]) -> str:
    """Return arguments as JAX writes types, and static ones with their values: ``(float32[8,2], N=4)``."""
    parts = [told["type"] + (f"[{','.join(told['shape'])}]" if "shape" in told else "")
             for told in held["arguments"].values()]
    return f"({', '.join(parts + [f'{name}={value}' for name, value in held['constants'].items()])})"


def _placed(sharding: Any) -> str | None:
    """Where an argument is that is bound to devices."""
    devices = sorted(map(str, getattr(sharding, "device_set", ())))
    if not devices:
        return None
    spec = getattr(sharding, "spec", None)
    return (f"{spec} on " if spec is not None else "") + ", ".join(devices)


def _is_jaxs(fun: Any) -> bool:
    return str(getattr(fun, "__module__", "")).partition(".")[0] in ("jax", "jaxlib")


def _of_function(fun: Any) -> dict[str, Any]:
    """Where a function is from, and a hash of its code."""
    owner = "library" if _is_jaxs(fun) else "user"
    found: dict[str, Any] = {"owner": owner, "module": getattr(fun, "__module__", None)}
    code = getattr(inspect.unwrap(fun) if callable(fun) else fun, "__code__", None)
    if isinstance(code, CodeType) and not _is_jaxs(fun):
        found |= {"filename": code.co_filename, "lineno": code.co_firstlineno, "code": code_hash(code)}
    return found
