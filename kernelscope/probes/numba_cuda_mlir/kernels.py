"""Rows of numba-cuda-mlir's dispatchers, compile results, configured launches and code."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from kernelscope.errors import CubinError
from kernelscope.probes.driver import device
from kernelscope.probes.numba_cuda.kernels import SIZES, NumbaCodeCapture
from kernelscope.probes.numba_cuda.kernels import KernelRows as NumbaKernelRows
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

FRAMEWORK = "numba-cuda-mlir"

# The options' defaults; those of its own that it keeps among them begin with an underscore.
_USUAL_OPTIONS = {
    "abi": ("numba",), "annotations_as_signatures": (True,), "capi": (False,), "debug": (None, False),
    "opt": (None, True), "opt_level": (None, 3), "device": (False,), "experimental_ast_transforms": (False,),
    "fastmath": (False,),
    "forceinline": (False,), "lineinfo": (None, False), "link": (None, (), []), "lto": (None, False),
    "extensions": (None, (), []), "no_cpython_wrapper": (True,), "nopython": (True,), "profile_jit": (False,),
    **dict.fromkeys(("dump", "dump_ast", "dump_ast_after_all", "dump_cubin", "dump_llvmir", "dump_mlir",
                     "dump_numba_ir", "dump_ptx", "print_after_all", "print_before_all"), (False,)),
}
# What is set by the first compile (the compute capability is a column of its own), says so only elsewhere, or is the
# same as another option.
_NOT_SHOWN = frozenset({"chip", "cc", "cache", "fast_math", "parallel", "inline"})

#: Seconds that loading kernels to ask for their occupancy may hold a stop in all.
_OCCUPANCY_BUDGET_S = 1.0


class KernelRows(NumbaKernelRows):
    """Interns what launches and compiles refer to, and asks the driver for the rest at stop.

    Parameters
    ----------
    sink : Sink
        Where the rows are.
    modules : object
        numba-cuda-mlir's modules: ``descriptor``, ``devices``, ``driver``.
    """

    framework = FRAMEWORK
    usual_options = _USUAL_OPTIONS

    def __init__(self, sink: Sink, modules: Any) -> None:
        super().__init__(sink, modules)
        self._until = 0.0
        self._loaded: dict[tuple[int, int], tuple[Any, Any, Any]] = {}
        #: When each compile result was first seen, by its specialization.
        self.seen_ns: dict[int, int] = {}

    def user_options(self, dispatcher: Any) -> dict[str, Any]:
        """Return the compile options that differ from the usual ones, as JSON values."""
        options = super().user_options(dispatcher)
        return {name: value for name, value in options.items() if not name.startswith("_") and name not in _NOT_SHOWN}

    def known_before(self, dispatcher: Any) -> list[str]:
        """Return the signatures that the dispatcher has, and keep their specializations' rows."""
        signatures = []
        for types, _, result in compiled(dispatcher):
            if result.metadata.get("cubin") is not None:
                self.specialization(dispatcher, result)
                signatures.append(self.signature_text(types))
        return signatures

    def known_configurations(self, dispatcher: Any, sig: Any) -> list[dict[str, Any]]:
        """Return the launch configurations that the kernel was compiled for with these types."""
        wanted = self.signature_text(sig)
        return [_config(key) for types, key, _ in compiled(dispatcher)
                if key is not None and self.signature_text(types) == wanted]

    def _specialization_row(self, dispatcher: Any, kernel: Any) -> dict[str, Any]:
        key = next((key for _, key, result in compiled(dispatcher) if result is kernel), None)
        self.seen_ns[len(self.sink.specializations)] = self.sink.clock()
        return {
            "signature": self.signature_text(kernel.signature),
            "launch_config_sensitive": key is not None,
            "launch_config": None if key is None else json.dumps(_config(key)),
            "entry_name": kernel.metadata.get("func_name"),
        }

    def configuration(self, config: Any) -> int:
        """Return the id of a configured launch: an ``_ArgMarshaller``."""
        shape = config._available_launch_config
        shared = shape.get("sharedmem") or 0
        stream = config._launch_stream if config._stream_ref is None else config._stream_ref
        return self.sink.configuration(shape["grid"], shape["block"], int(shared) if int(shared) >= 0 else None,
                                       self._followed(stream), shape.get("cluster"))

    def _followed(self, stream: Any) -> int | None:
        handle = _handle(stream)
        return handle if handle is None else self.sink.stream_seen(handle, stream)

    def target(self, dispatcher: Any, kernel: Any, error: str | None) -> int:
        """Return the id of what a configured launch went to; `dispatcher` is that launch, `kernel` its types."""
        marshaller, owner = dispatcher, dispatcher._dispatcher
        result = None if kernel is None else self._launched(marshaller, owner, tuple(kernel))
        if result is None:
            return self.sink.target(self.dispatcher(owner), error=error)
        return self.sink.target(self.dispatcher(owner), self.specialization(owner, result), self._only_device(), error)

    def _launched(self, marshaller: Any, owner: Any, types: tuple[Any, ...]) -> Any:
        """The compile result that the native launcher has taken for these types, found as it finds it; or None."""
        if getattr(owner, "_literal_arg_positions", None):
            return None  # one for each value, which the types do not say
        config = marshaller._launch_config
        wanted = None if config is None else self.modules.descriptor._launch_config_key(config)
        reusable = owner._can_reuse_overload
        known = [(args, result) for args, key, result in compiled(owner) if key == wanted]
        if wanted is not None:
            known.sort(key=lambda each: each[0] != types)  # an exact one first, there
        for args, result in known:
            if len(args) == len(types) and all(map(reusable, args, types)):
                return result
        if wanted is not None:
            return None
        best, found = owner._resolve_overload(types)
        return owner.overloads.get(best[0]) if found else None

    def _only_device(self) -> int:
        """The device, where there is one only: which one a launch goes to, the native launcher asks by itself."""
        if not self.modules.driver.driver.is_initialized or len(self.modules.devices.gpus) != 1:
            return UNKNOWN
        return device(self.sink, 0)

    def describe(self, used: Iterable[tuple[int, int]]) -> None:
        """Ask for sizes and occupancy of what was used; kernels are loaded once more for it, and let go."""
        self._until = time.monotonic() + _OCCUPANCY_BUDGET_S
        start = self.sink.clock()
        try:
            super().describe(used)
        finally:
            if self._loaded:
                for gpu, module, _ in self._loaded.values():
                    with gpu:
                        self.modules.driver.binding.cuModuleUnload(module)
                self._loaded.clear()
                # Our own calls of the driver, which are no part of the recording.
                self.sink.own.append((threading.get_ident(), start, self.sink.clock()))

    def _describe_kernel(self, row: dict[str, Any], kernel: Any) -> None:
        """Fill in sizes, from the machine code: what the native launcher has loaded cannot be asked for them."""
        row.setdefault("regs", None)
        capability, code = self.machine_code(kernel)
        if capability is not None:
            row["compute_capability"] = f"{capability[0]}.{capability[1]}"
        if code is None:
            return
        row["cubin_bytes"] = len(code)
        try:
            from kernelscope import cubin

            found = cubin.read(code).kernel(row["entry_name"])
        except CubinError as problem:
            self.sink.swallow(FRAMEWORK, problem)
            return
        if found is not None:
            row.update({column: getattr(found, column) for column in SIZES})

    def machine_code(self, kernel: Any) -> tuple[Any, bytes | None]:
        """Return what it was compiled for, as major and minor, and its cubin."""
        code = kernel.metadata.get("cubin")
        chip = (kernel.metadata.get("gpu_target") or {}).get("cc")
        return (tuple(chip) if chip else None), None if code is None else bytes(code)

    def _occupancy(self, specialization: int, configuration: int, device: int) -> None:
        def active(threads: int, shared: int) -> int | None:
            function = self._function(specialization, self.sink.devices.rows[device]["ordinal"])
            if function is None:
                return None
            error, blocks = self.modules.driver.binding.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                function, threads, shared)
            return None if int(error) else int(blocks)

        self.sink.add_occupancy(specialization, configuration, device, active)

    def _function(self, specialization: int, ordinal: int) -> Any:
        """A specialization's kernel, loaded until `describe` ends: the native launcher does not tell its own."""
        gpu, binding = self.modules.devices.gpus[ordinal], self.modules.driver.binding
        if (specialization, ordinal) not in self._loaded:
            kernel = self.sink.specializations.objects[specialization][1]
            _, code = self.machine_code(kernel)
            # Loading while some stream captures may break the capture; a closed context is not started again.
            if code is None or self.sink.is_capturing() or gpu.primary_context is None or (
                    time.monotonic() > self._until):
                return None
            with gpu:
                error, module = binding.cuModuleLoadData(code)
                if int(error):
                    return None
                error, function = binding.cuModuleGetFunction(module, kernel.metadata["func_name"].encode())
            self._loaded[specialization, ordinal] = gpu, module, None if int(error) else function
        return self._loaded[specialization, ordinal][2]


def compiled(dispatcher: Any) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Yield argument types, launch configuration's key or None, and compile result of all that can be launched."""
    seen: set[int] = set()
    for types, result in list(dispatcher.overloads.items()):
        seen.add(id(result))
        yield tuple(getattr(types, "args", types)), None, result
    for (types, key), result in list(getattr(dispatcher, "_launch_config_overloads", {}).items()):
        if id(result) not in seen:
            seen.add(id(result))
            yield tuple(types), key, result


def _handle(stream: Any) -> int | None:
    """A stream's handle: of numba-cuda-mlir's own, of cuda.core's, of any that follows the stream protocol."""
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    handle = getattr(stream, "handle", stream)
    handle = getattr(handle, "value", handle)
    try:
        return int(handle or 0)
    except (TypeError, ValueError):
        return None


def _config(key: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """A launch configuration's key, as in ``specializations.launch_config``."""
    shape = dict(key)
    cluster = {} if shape.get("cluster") is None else {"cluster": list(shape["cluster"])}
    return {"griddim": list(shape["grid"]), "blockdim": list(shape["block"]), "sharedmem_bytes": shape["sharedmem"],
            **cluster}


# The code of numba-cuda-mlir's kernels as rows of the table ``code``: what ran, read from its compile results.
#
# Nothing is compiled for it. MLIR is kept twice in one text, as MLIR tools write several modules: what the
# function was lowered to, and what MLIR's own passes made of it. A kernel loaded from the disk cache has only the
# second.

_LOWERED = "// MLIR that the Python function was lowered to"
_OPTIMIZED = "// MLIR after its passes, in the dialects llvm and nvvm"
#: How MLIR tools part several modules in one file.
_PARTING = "// -----"


class MlirCodeCapture(NumbaCodeCapture):
    """Adds the rows of each function and each specialization once."""

    framework = FRAMEWORK

    def _annotation(self, kernel: Any) -> Any:
        return getattr(kernel.cres, "type_annotation", None)

    def _add_llvm(self, owner: int, number: int, name: str, kernel: Any) -> None:
        """LLVM where the user has asked for it, which makes it; MLIR in any case."""
        llvm = kernel.metadata.get("llvmir")
        if llvm:
            self._add(owner, number, "llvm", llvm)
        text = mlir_text(kernel.metadata)
        if text:
            self._add(owner, number, "mlir", text)
        else:
            self._failed("MLIR is not to be found", name)

    def _add_machine_code(self, owner: int, number: int, kernel: Any) -> bytes | None:
        ptx = kernel.metadata.get("ptx") or kernel.metadata.get("lto_ptx")
        if ptx:
            self._add(owner, number, "ptx", ptx)
        _, code = self._rows.machine_code(kernel)
        if code is not None:
            self._add_cubin(owner, number, code)
        return code


def mlir_text(metadata: Any) -> str:
    """Return the MLIR that a compile result's metadata holds; empty where there is none."""
    parts = [(_LOWERED, metadata.get("mlir_module_str")), (_OPTIMIZED, metadata.get("mlir_module_optimized"))]
    return f"{_PARTING}\n".join(f"{title}\n{text.rstrip()}\n" for title, text in parts if text)
