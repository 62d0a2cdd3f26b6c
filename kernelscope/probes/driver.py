"""What every probe asks of the CUDA driver, without harm to a capture or an exception that is under way."""

from __future__ import annotations

import ctypes
import importlib
import uuid
from typing import Any

from kernelscope.probes.sink import Sink

# Callbacks that C makes in the middle of the user's code, without harm to an exception that is on its way there.
#
# A library in Cython or C++ that raises goes on to destroy what it holds, and calls the driver for it while
# Python's exception is set already. A callback of ctypes would start Python code with it, lose it, and leave the
# user with a SystemError. Python code cannot keep that from happening, so a few lines of machine code do, made by
# LLVM, which numba brings: they put the exception aside before the callback and back after it.

#: Callbacks have at most so many parameters, pointers and integers.
_PARAMETERS = 5


def guarded(callback: Any) -> Any:
    """Return a callback that does the same, and during which an exception that is set stays what it is.

    Parameters
    ----------
    callback : ctypes function
        Made by `ctypes.CFUNCTYPE`; it returns nothing.

    Returns
    -------
    ctypes function or None
        Of the same type; None where LLVM is not installed.
    """
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    try:
        made = _compiled(address)
    except Exception:
        return None
    guard = type(callback)(made)
    guard.guarded = callback  # it lives as long
    return guard


def _compiled(address: int) -> int:
    ir: Any = importlib.import_module("llvmlite.ir")
    llvm: Any = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(str(_module(ir, address)))
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine())
    engine.finalize_object()
    _engines.append(engine)  # C may call it as long as the process lives
    return engine.get_function_address("guard")


def _module(ir: Any, address: int) -> Any:
    """The code: take the interpreter's lock, put the exception aside, call, put it back, give the lock back.

    The lock in any case: who calls C mostly gives it away before, and the exception stays with the thread.
    """
    number, word, nothing = ir.IntType(32), ir.IntType(64), ir.VoidType()
    module = ir.Module("kernelscope")
    called = ir.FunctionType(nothing, [word] * _PARAMETERS)
    guard = ir.Function(module, called, "guard")
    builder = ir.IRBuilder(guard.append_basic_block("start"))

    def call(where: int, result: Any, *arguments: Any) -> Any:
        kind = ir.FunctionType(result, [each.type for each in arguments])
        return builder.call(builder.inttoptr(ir.Constant(word, where), kind.as_pointer()), arguments)

    cells = [builder.alloca(word) for _ in range(3)]
    state = call(_address("PyGILState_Ensure"), number)
    call(_address("PyErr_Fetch"), nothing, *cells)
    call(address, nothing, *guard.args)
    call(_address("PyErr_Restore"), nothing, *(builder.load(cell) for cell in cells))
    call(_address("PyGILState_Release"), nothing, state)
    builder.ret_void()
    return module


def _address(name: str) -> int:
    found = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert found is not None
    return found


_engines: list[Any] = []


# What the driver says of a device, for every probe: through ctypes, for each framework has bindings of its own.

#: Columns of `devices`, and the number of the attribute that the driver answers.
_ATTRIBUTES = {
    "multiprocessors": 16,
    "max_threads_per_multiprocessor": 39,
    "max_blocks_per_multiprocessor": 106,
    "registers_per_multiprocessor": 82,
    "shared_per_multiprocessor_bytes": 81,
    "reserved_shared_bytes": 111,
}
_MAJOR, _MINOR = 75, 76


def with_context() -> ctypes.CDLL | None:
    """Return the driver where this thread has a context; None without one, which it is not given."""
    context = ctypes.c_void_p()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        return None if driver.cuCtxGetCurrent(ctypes.byref(context)) or not context else driver
    except (OSError, AttributeError):
        return None


def device(sink: Sink, ordinal: int) -> int:
    """Return the id of a device, by its ordinal; asked of the driver at first sight. CUDA has been started before."""
    return sink.devices.intern(("device", ordinal), lambda: {"ordinal": ordinal, **_facts(ordinal)})


def _facts(ordinal: int) -> dict[str, Any]:
    driver = ctypes.CDLL("libcuda.so.1")
    handle = ctypes.c_int()
    if driver.cuDeviceGet(ctypes.byref(handle), ordinal):
        return {}
    name = ctypes.create_string_buffer(256)
    driver.cuDeviceGetName(name, len(name), handle)
    major, minor = (_attribute(driver, handle, number) for number in (_MAJOR, _MINOR))
    return {
        "uuid": _uuid(driver, handle),
        "name": name.value.decode("utf-8", "replace") or None,
        "compute_capability": None if major is None else f"{major}.{minor}",
        **{column: _attribute(driver, handle, number) for column, number in _ATTRIBUTES.items()},
    }


def _uuid(driver: Any, handle: ctypes.c_int) -> str | None:
    """The device's UUID as nvidia-smi writes it; of a part of a GPU (MIG) its own, where the driver knows of such."""
    value = (ctypes.c_ubyte * 16)()
    get = getattr(driver, "cuDeviceGetUuid_v2", None) or driver.cuDeviceGetUuid
    return None if get(value, handle) else f"GPU-{uuid.UUID(bytes=bytes(value))}"


def _attribute(driver: Any, handle: ctypes.c_int, number: int) -> int | None:
    value = ctypes.c_int()
    # A driver that is older than the attribute does not know it.
    return None if driver.cuDeviceGetAttribute(ctypes.byref(value), number, handle) else value.value


def stream_handle(stream: Any) -> int:
    """Return the handle of whatever numba-cuda takes for a stream."""
    return int(getattr(stream, "handle", stream) or 0)


# Waiting for the devices that a framework has launched on, without harm to a capture that is under way.

def synchronize(sink: Sink, modules: Any) -> str | None:
    """Wait for every device among the sink's rows; return why that could not be done, or None.

    Parameters
    ----------
    sink : Sink
        What was launched on, and with which streams.
    modules : object
        The framework's ``devices`` and ``driver``: modules of numba-cuda, or of one that has taken them over.
    """
    if sink.is_capturing():
        return "a stream is capturing a graph: synchronizing would break the capture"
    capturing = _capturing_stream(sink, modules.driver.binding)
    if capturing is not None:
        return f"stream {capturing:#x} is capturing a graph: synchronizing would break the capture"
    try:
        for row in sink.devices.rows:
            if modules.devices.gpus[row["ordinal"]].primary_context is None:
                continue  # closed, and so finished; never start CUDA for it
            with modules.devices.gpus[row["ordinal"]]:
                modules.driver.driver.cuCtxSynchronize()
    except Exception as error:
        # A kernel's own failure shows up here: the recording tells, and the user's next call raises it.
        return f"{type(error).__name__}: {error}"
    return None


def _capturing_stream(sink: Sink, binding: Any) -> int | None:
    """Handle of a stream of this recording that is in the middle of a graph capture."""
    for stream in sink.streams():
        error, status = binding.cuStreamIsCapturing(binding.CUstream(stream))
        if not int(error) and int(status):
            return stream
    return None
