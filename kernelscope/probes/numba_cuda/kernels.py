"""Rows of numba-cuda's dispatchers, kernels, launch configurations and code."""

from __future__ import annotations

import json
import os
import re
import weakref
from collections.abc import Iterable, Mapping
from types import CellType, FunctionType
from typing import Any

from kernelscope.errors import CubinError
from kernelscope.probes import driver
from kernelscope.probes.code import CodeCapture
from kernelscope.probes.functions import (
    Definition,
    argument_text,
    code_sha256,
    definitions,
    written,
)
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

FRAMEWORK = "numba-cuda"

# Options that say nothing, because every dispatcher has them at these values.
_USUAL_OPTIONS = {"debug": (None, False, 0), "lineinfo": (None, False), "opt": (None, True), "link": (None, (), []),
                  "fastmath": (False,), "device": (False,), "inline": ("never", False), "forceinline": (False,),
                  "extensions": (None, (), []), "launch_bounds": (None,), "lto": (None, True),
                  "max_registers": (None,), "shared_memory_carveout": (None,)}

# Columns of `specializations` that a cubin says.
SIZES = ("regs", "static_shared_bytes", "local_bytes", "const_bytes", "max_threads", "spill_store_bytes",
          "spill_load_bytes")


class KernelRows:
    """Interns what launches and compiles refer to, and asks the driver for the rest at stop.

    Parameters
    ----------
    sink : Sink
        Where the rows are.
    modules : object
        numba-cuda's modules: ``devices``, ``dispatcher``, ``driver``.
    """

    #: The framework's name in rows and keys.
    framework = FRAMEWORK
    #: Compile options that say nothing, by the values at which they do.
    usual_options: Mapping[str, tuple[Any, ...]] = _USUAL_OPTIONS

    def __init__(self, sink: Sink, modules: Any) -> None:
        self.sink = sink
        self.modules = modules
        self._options: dict[int, tuple[Any, dict[str, Any]]] = {}

    def dispatcher(self, dispatcher: Any) -> int:
        """Return the id of the kernel function: its LC-S and `specialize` offspring share the function's row.

        So do the kernels that numba-cuda makes of one ufunc, or of one function for ``cuda.reduce``.
        """
        function = dispatcher.py_func
        source, owner = written(function)
        options = self.user_options(dispatcher)
        key = (self.framework, id(source), source is function, json.dumps(options, sort_keys=True))

        def row() -> dict[str, Any]:
            code = function.__code__
            return {
                "framework": self.framework,
                "name": _name(function),
                "module": getattr(function, "__module__", None),
                "filename": code.co_filename,
                "lineno": code.co_firstlineno,
                "options": json.dumps(options, sort_keys=True) if options else None,
                "attributes": json.dumps({"owner": owner} if source is function else {
                    "owner": owner, "function": _name(source)}),
            }

        known = self.sink.dispatchers.find(key)
        if known is not None:
            return known
        definition = definitions.seen(self._name_of(function, source), source, options)
        return self.sink.dispatchers.intern(key, row, live=(function, source, definition))

    def changes(self, dispatcher_id: int) -> dict[str, Any] | None:
        """Return what a definition that ran again has changed, or None where it did not: see `Definitions.changes`."""
        function, source, definition = self.sink.dispatchers.objects[dispatcher_id]
        usual = {name: next((value for value in values if isinstance(value, bool)), None)
                 for name, values in self.usual_options.items()}
        return definitions.changes(self._name_of(function, source), definition, usual)

    def definition(self, dispatcher_id: int) -> Definition:
        """Return what this process remembers of a kernel function."""
        definition: Definition = self.sink.dispatchers.objects[dispatcher_id][2]
        return definition

    def is_another(self, dispatcher_id: int, dispatcher: Any) -> bool:
        """Whether another dispatcher of the very same function was asked to compile before this one.

        Those that numba-cuda makes itself for a launch configuration, a ufunc or a reduction do not count.
        """
        function, source, definition = self.sink.dispatchers.objects[dispatcher_id]
        if source is not function or getattr(dispatcher, "_launch_config_is_specialized", False):
            return False
        if definition.dispatcher is None:
            definition.dispatcher = weakref.ref(dispatcher)
        return definition.dispatcher() is not dispatcher

    def _name_of(self, function: Any, source: Any) -> tuple[Any, ...]:
        """What a definition that runs again has in common with the one before."""
        return self.framework, source is function, getattr(source, "__module__", None), source.__qualname__

    def user_options(self, dispatcher: Any) -> dict[str, Any]:
        """Return the compile options that differ from numba-cuda's usual ones, as JSON values."""
        # numba-cuda appends to the user's `link`: the options are those of the first look.
        given = dispatcher.targetoptions
        known = self._options.get(id(given))
        if known is not None:
            return known[1]
        options = {}
        for name, value in dispatcher.targetoptions.items():
            usual = self.usual_options.get(name, (None,))
            if not any(value is plain or value == plain for plain in usual):
                options[name] = value if isinstance(value, bool | int | float | str) else repr(value)
        self._options[id(given)] = given, options
        return options

    def known_before(self, dispatcher: Any) -> list[str]:
        """Return the signatures that the dispatcher has, and keep their specializations' rows."""
        signatures = []
        for argument_types, kernel in list(dispatcher.overloads.items()):
            if isinstance(kernel, self.modules.dispatcher._Kernel):
                self.specialization(dispatcher, kernel)
                signatures.append(self.signature_text(argument_types))
        return signatures

    def known_of_others(self, dispatcher_id: int, dispatcher: Any) -> list[str]:
        """Return the signatures of the other dispatchers of a ufunc or a reduction, as far as they were seen."""
        function, source, definition = self.sink.dispatchers.objects[dispatcher_id]
        if source is function:
            return []
        own = {self.signature_text(types) for types in dispatcher.overloads}
        return [signature for signature in definition.signatures if signature not in own]

    def known_configurations(self, dispatcher: Any, sig: Any) -> list[dict[str, Any]]:
        """Return the launch configurations that a launch-config sensitive kernel was compiled for with these types.

        Of a dispatcher that numba-cuda made for one launch configuration: those of the kernel's other ones.
        """
        if not getattr(dispatcher, "_launch_config_is_specialized", False):
            return []
        config = self.modules.launchconfig.current_launch_config()
        kernel: Any = None if config is None else config.dispatcher  # the one that the user launched
        wanted, found = self.signature_text(sig), []
        for owner in (kernel, *getattr(kernel, "_launch_config_specializations", {}).values()):
            key = getattr(owner, "_launch_config_default_key", None)
            if key is not None and owner is not dispatcher and any(
                    self.signature_text(types) == wanted for types in list(owner.overloads)):
                found.append(_config(key))
        return found

    def signature_text(self, sig: Any) -> str:
        """Return argument types as ``(array(float32, 1d, C), int64)``."""
        types = getattr(sig, "args", sig)
        if isinstance(types, str):
            return types
        return f"({', '.join(str(kind) for kind in types)})"

    def specialization(self, dispatcher: Any, kernel: Any, origin: str = "before") -> int:
        """Return the id of a compiled overload; `origin` counts at first sight only."""
        number = self.sink.specializations.intern(
            (self.framework, id(kernel)),
            lambda: {"dispatcher_id": self.dispatcher(dispatcher), "origin": "before" if origin == "wait" else origin,
                     **self._specialization_row(dispatcher, kernel)},
            live=(dispatcher, kernel))
        if origin in ("compiled", "disk"):
            # Another thread's launch may have seen it a moment earlier than the compile's own hook.
            self.sink.specializations.rows[number]["origin"] = origin
        return number

    def _specialization_row(self, dispatcher: Any, kernel: Any) -> dict[str, Any]:
        sensitive = is_sensitive(dispatcher, kernel)
        key = self._bound_to(dispatcher, kernel) if sensitive else None
        return {
            "signature": self.signature_text(kernel.argument_types),
            "launch_config_sensitive": sensitive,
            "launch_config": None if key is None else json.dumps(_config(key)),
            "entry_name": kernel.entry_name,
        }

    def _bound_to(self, dispatcher: Any, kernel: Any) -> tuple[Any, ...] | None:
        """The launch configuration that an LC-S kernel is bound to, as numba-cuda's key."""
        offspring = list(getattr(dispatcher, "_launch_config_specializations", {}).values())
        owners = [each for each in (dispatcher, *offspring)
                  if any(known is kernel for known in list(each.overloads.values()))]
        key = getattr((owners or [dispatcher])[0], "_launch_config_default_key", None)
        if key is None:  # it is just being compiled
            config = self.modules.launchconfig.current_launch_config()
            key = None if config is None else (config.griddim, config.blockdim, config.sharedmem)
        return key

    def specialization_of(self, kernel: Any) -> int:
        """Return the id of a kernel that was seen before, or -1."""
        known = self.sink.specializations.find((self.framework, id(kernel)))
        return UNKNOWN if known is None else known

    def is_own(self, specialization: Mapping[str, Any]) -> bool:
        """Whether a row of ``specializations`` is of this framework: several write to one sink."""
        return self.sink.dispatchers.rows[specialization["dispatcher_id"]]["framework"] == self.framework

    def configuration(self, config: Any) -> int:
        """Return the id of a configured launch."""
        stream = config.stream
        handle = getattr(stream, "handle", stream)
        return self.sink.configuration(config.griddim, config.blockdim, config.sharedmem,
                                       self.sink.stream_seen(int(handle or 0), stream))

    def target(self, dispatcher: Any, kernel: Any, error: str | None) -> int:
        """Return the id of what a launch went to. `kernel` may be a ``_Kernel`` or what it was loaded as."""
        if kernel is None:
            return self.sink.target(self.dispatcher(dispatcher), error=error)
        ordinal = None
        if not isinstance(kernel, self.modules.dispatcher._Kernel):
            dispatcher, kernel, ordinal = self._loaded_as(dispatcher, kernel)
        elif self.modules.driver.driver.is_initialized:
            ordinal = self.modules.devices.get_context().device.id
        device = UNKNOWN if ordinal is None else driver.device(self.sink, ordinal)
        specialization = self.specialization(dispatcher, kernel)
        return self.sink.target(self.dispatcher(dispatcher), specialization, device, error)

    def describe(self, used: Iterable[tuple[int, int]]) -> None:
        """Ask for registers, sizes and occupancy of what was used: driver calls, no compile and no load."""
        for number, row in enumerate(self.sink.dispatchers.rows):
            if row["framework"] == self.framework and "code_sha256" not in row:
                function, source, definition = self.sink.dispatchers.objects[number]
                row.update(arguments=_arguments(function, source), code_sha256=code_sha256(source.__code__))
                if definition.code is None:  # it was compiled before it was recorded
                    definition.look()
        for number, live in enumerate(self.sink.specializations.objects):
            row = self.sink.specializations.rows[number]
            if self.is_own(row) and isinstance(live, tuple) and "regs" not in row:
                try:
                    self._describe_kernel(row, live[1])
                except Exception as problem:  # one kernel's: the others go on
                    self.sink.swallow(self.framework, problem)
        done = {(entry["specialization_id"], entry["configuration_id"], entry["device_id"])
                for entry in self.sink.occupancies}
        for target, configuration in used:
            goal = self.sink.targets.rows[target]
            pair = (goal["specialization_id"], configuration, goal["device_id"])
            if UNKNOWN not in pair and pair not in done and self.is_own(self.sink.specializations.rows[pair[0]]):
                done.add(pair)
                try:
                    self._occupancy(*pair)
                except Exception as problem:  # such as of a configuration that cannot be launched: the others go on
                    self.sink.swallow(self.framework, problem)

    def _describe_kernel(self, row: dict[str, Any], kernel: Any) -> None:
        """Fill in sizes: from the loaded function where there is one, and from the machine code what no driver says."""
        ordinal, function = next(iter(list(kernel._codelibrary._cufunc_cache.items())), (None, None))
        capability, code = self.machine_code(kernel)
        if code is not None:
            row["compute_capability"] = f"{capability[0]}.{capability[1]}"
            row["cubin_bytes"] = len(code)
            found = None
            try:
                from kernelscope import cubin

                found = cubin.read(code).kernel(kernel.entry_name)
            except CubinError as problem:  # the driver may still know most of it
                self.sink.swallow(self.framework, problem)
            if found is not None:
                row.update({column: getattr(found, column) for column in SIZES})
        if function is not None and self.modules.devices.gpus[ordinal].primary_context is not None:
            attributes = function.attrs
            row.update(regs=attributes.regs, static_shared_bytes=attributes.shared, local_bytes=attributes.local,
                       const_bytes=attributes.const, max_threads=attributes.maxthreads)

    def machine_code(self, kernel: Any) -> tuple[Any, bytes | None]:
        """Return numba-cuda's compute capability of what is loaded, or else of the newest cubin, and that cubin."""
        library = kernel._codelibrary
        made = dict(library._cubin_cache)
        if not made:
            return None, None
        wanted = list(made)[-1]
        for ordinal in list(library._cufunc_cache):
            own = tuple(self.modules.devices.gpus[ordinal].compute_capability[:2])
            wanted = next((capability for capability in made if tuple(capability[:2]) == own), wanted)
            break
        return wanted, bytes(getattr(made[wanted], "code", made[wanted]))

    def _occupancy(self, specialization: int, configuration: int, device: int) -> None:
        live = self.sink.specializations.objects[specialization]
        row = self.sink.devices.rows[device]
        function = live[1]._codelibrary._cufunc_cache.get(row["ordinal"]) if isinstance(live, tuple) else None
        if function is None or not _is_loaded(function):
            return
        gpu = self.modules.devices.gpus[row["ordinal"]]
        if gpu.primary_context is None:
            return  # cuda.close() has taken the function away; asking would start CUDA again
        with gpu:
            self.sink.add_occupancy(
                specialization, configuration, device, lambda threads, shared:
                gpu.get_primary_context().get_active_blocks_per_multiprocessor(function, threads, shared))

    def _loaded_as(self, dispatcher: Any, loaded: Any) -> tuple[Any, Any, int]:
        """Find the ``_Kernel`` and the device's ordinal of a loaded function."""
        offspring = getattr(dispatcher, "_launch_config_specializations", {})
        for owner in (dispatcher, *offspring.values()):
            for kernel in list(owner.overloads.values()):
                for ordinal, function in kernel._codelibrary._cufunc_cache.items():
                    if function is loaded:
                        return owner, kernel, ordinal
        raise LookupError(f"{dispatcher.py_func.__name__} launched a kernel that none of its overloads has")


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", function.__name__).replace("<locals>.", "")


def _arguments(function: Any, source: Any) -> str:
    """A kernel's arguments by the names that they have where they were written."""
    own = argument_text(function.__code__)
    if source is function or "a0" not in own.split(", "):
        return own
    # A ufunc's kernel numbers them; vectorize's has the result behind them.
    names = argument_text(source.__code__)
    return f"{names}, __out__" if own.endswith("__out__") else names


def is_sensitive(dispatcher: Any, kernel: Any) -> bool:
    """Return whether a compiled kernel is used for one launch configuration only (LC-S).

    A later compile of such a kernel need not say so itself: what it calls can have been compiled for the first one, and
    is not asked again. numba-cuda goes by the dispatcher that it has made for the launch configuration.
    """
    return bool(getattr(kernel, "launch_config_sensitive", False)
                or getattr(dispatcher, "_launch_config_is_specialized", False))


def _is_loaded(function: Any) -> bool:
    """Whether the module of a loaded function is still there: cuda.close() drops it, and the function stays."""
    try:
        return function.module.handle is not None
    except ReferenceError:
        return False


def _config(key: tuple[Any, ...]) -> dict[str, Any]:
    grid, block, sharedmem = key
    return {"griddim": list(grid), "blockdim": list(block), "sharedmem_bytes": sharedmem}


# The code of numba-cuda's kernels: what ran, read from its caches.
#
# PTX and machine code are those of the compute capability that ran, types and LLVM those of that compile. What is not
# there is left out; a kernel loaded from the disk cache has no types, for the cache keeps none.

#: Constants such as arrays can be printed at any length.
_LONGEST_EXPRESSION = 300
# What says where this process keeps an object or a module, and nothing about the code.
_PLACES = r" at 0x[0-9a-f]+| from '[^']*'"
# What numba prints of a call once more, behind its arguments.
_CALL_DETAILS = r"(?s)(?:, |(?<=\())func=[^\s,]+, args=.*\)$"


#: Device functions that are looked for in one kernel at most.
_MOST_CALLED = 100


def device_functions(function: Any) -> list[Any]:
    """Return the Python functions of the device functions that a kernel names, and that these name, each once."""
    found: dict[int, Any] = {}
    left = [function]
    while left and len(found) < _MOST_CALLED:
        each = left.pop(0)
        cells = [cell.cell_contents for cell in each.__closure__ or () if _is_set(cell)]
        for value in [*(each.__globals__.get(name) for name in each.__code__.co_names), *cells]:
            called = getattr(value, "py_func", None)
            if isinstance(called, FunctionType) and called is not function and id(called) not in found:
                found[id(called)] = called
                left.append(called)
    return list(found.values())


def _is_set(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


class NumbaCodeCapture(CodeCapture):
    """Adds the rows of numba-cuda's functions and specializations.

    Parameters
    ----------
    sink : Sink
        Where the rows go.
    rows : KernelRows
        Knows the live objects behind the rows.
    """

    framework = FRAMEWORK

    def __init__(self, sink: Sink, rows: KernelRows) -> None:
        super().__init__(sink)
        self._rows = rows

    def _is_own(self, number: int) -> bool:
        live = self._sink.specializations.objects[number]
        return isinstance(live, tuple) and self._rows.is_own(self._sink.specializations.rows[number])

    def _read(self, owner: int, number: int, name: str, live: Any) -> bytes | None:
        dispatcher, kernel = live
        self._add_source(owner, name, dispatcher.py_func, device_functions(dispatcher.py_func))
        self._add_types(owner, number, name, kernel)
        self._add_llvm(owner, number, name, kernel)
        return self._tried("machine code", name, lambda: self._add_machine_code(owner, number, kernel))

    def _annotation(self, kernel: Any) -> Any:
        """Return what numba keeps of its type inference; None of what was loaded from the disk cache."""
        return getattr(kernel, "_type_annotation", None)

    def _add_types(self, owner: int, number: int, name: str, kernel: Any) -> None:
        annotation = self._annotation(kernel)
        if annotation is not None:
            text = self._tried("types", name, lambda: json.dumps(inferred_types(annotation), ensure_ascii=False))
            if text is not None:
                self._add(owner, number, "types", text)

    def _add_llvm(self, owner: int, number: int, name: str, kernel: Any) -> None:
        text = self._tried("LLVM", name, lambda: kernel._codelibrary.get_llvm_str())
        if text is not None:
            self._add(owner, number, "llvm", text)

    def _add_machine_code(self, owner: int, number: int, kernel: Any) -> bytes | None:
        library = kernel._codelibrary
        capability, code = self._rows.machine_code(kernel)
        texts = library._ptx_cache.get(capability)
        if texts:
            self._add(owner, number, "ptx", "\n\n".join(texts), **({"before_lto": True} if library._lto else {}))
        if code is not None:
            self._add_cubin(owner, number, code)
        return code


def inferred_types(annotation: Any) -> list[dict[str, Any]]:
    """Return numba's inferred types in order, as rows with ``line``, ``name``, ``type`` and ``expr``.

    What calls something, or stores into an array, has the chosen signature too, as ``call``. Of a function that was
    inlined from another file ``line`` is 0, and ``from`` says where it stands, as ``file.py:12``.

    Parameters
    ----------
    annotation : TypeAnnotation
        What numba keeps of a compile; it is walked as numba's own ``inspect_types`` does.
    """
    rows: list[dict[str, Any]] = []
    for label in sorted(annotation.blocks):
        for statement in annotation.blocks[label].body:
            value, target = getattr(statement, "value", None), getattr(statement, "target", None)
            if target is None or value is None:
                continue
            kind = type(statement).__name__
            if kind == "Assign":
                name, found = str(target), annotation.typemap.get(target.name)
                call = annotation.calltypes.get(value) if getattr(value, "op", None) == "call" else None
            elif kind in ("SetItem", "StaticSetItem"):
                name, call = f"{target}[{statement.index}]", annotation.calltypes.get(statement)
                found = annotation.typemap.get(getattr(value, "name", None))
            else:
                continue
            loc = statement.loc
            row = {"line": loc.line, "name": name, "type": _shown(found), "expr": _shown(value)}
            if loc.filename != annotation.filename:
                row |= {"line": 0, "from": f"{os.path.basename(loc.filename)}:{loc.line}"}
            rows.append(row if call is None else {**row, "call": _shown(call)})
    return rows


def _shown(value: Any) -> str:
    text = re.sub(_CALL_DETAILS, ")", re.sub(_PLACES, "", str(value)))
    return text if len(text) <= _LONGEST_EXPRESSION else f"{text[:_LONGEST_EXPRESSION]}…"
