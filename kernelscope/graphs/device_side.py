"""What kernels call: the setter of a condition."""

from __future__ import annotations

from typing import Any

from kernelscope.graphs.memory import numba_module

types, intrinsic = numba_module("types"), numba_module("extending").intrinsic


def _declared(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir

    module = builder.module
    name = "cudaGraphSetConditional"
    function = module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64), ir.IntType(32)])
        function = ir.Function(module, kind, name)
    builder.call(function, args)
    return context.get_dummy_value()


def _typed(typingctx: Any, condition: Any, value: Any) -> Any:
    """Set a condition, in a kernel: ``set_condition(condition, 0)``.

    Parameters
    ----------
    condition : uint64
        What the kernel got for the `Condition` in its node's arguments.
    value : uint32
        The new value: 0 is false.

    Notes
    -----
    It is ``cudaGraphSetConditional``, which the driver provides from CUDA 12.4 on. Threads that set one condition at
    the same time do so in no order: let one thread do it.
    """
    if isinstance(condition, types.Integer) and isinstance(value, (types.Integer, types.Boolean)):
        return types.void(types.uint64, types.uint32), _declared
    return None


set_condition: Any = intrinsic(_typed)
