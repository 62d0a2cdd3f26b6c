"""Callbacks that C makes in the middle of the user's code, without harm to an exception that is on its way there.

A library in Cython or C++ that raises goes on to destroy what it holds, and calls the driver for it while Python's
exception is set already. A callback of ctypes would start Python code with it, lose it, and leave the user with a
SystemError. Python code cannot keep that from happening, so a few lines of machine code do, made by LLVM, which numba
brings: they put the exception aside before the callback and back after it.
"""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

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
