"""What the user of each framework can do: texts of advice by framework.

A framework that is not in a table, such as one of a newer version's recording, has no such remedy, and advice that
needs one is not given for its kernels. Nothing stands for "all others".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kernelscope.analysis.columns import owner_of

#: Every framework that a row of ``dispatchers`` can name.
FRAMEWORKS = (
    "numba-cuda", "numba-cuda-mlir", "simulator", "cuda.core", "cuda.compute", "quadrants", "triton", "torch.compile",
    "cupy", "jax", "warp", "cutile", "cute", "driver",
)
NUMBA = ("numba-cuda", "numba-cuda-mlir")
#: Those that compile what the user wrote for the arguments that it is called with, each time a row of ``compilations``.
COMPILING = (*NUMBA, "quadrants", "triton", "torch.compile", "cupy", "jax", "warp", "cutile", "cute")

#: How a compile is kept for the next session. CuPy, cuTile, Triton, torch.compile, Warp and CuTe DSL keep theirs on
#: disk by default, and the simulator compiles nothing.
DISK_CACHE = {
    **dict.fromkeys(NUMBA, "cache=True in @cuda.jit"),
    "cuda.core": "Program.compile(cache=...) with a FileStreamProgramCache of cuda.core.utils",
    "quadrants": "qd.init(offline_cache=True)",
    "jax": ("jax_compilation_cache_dir (with jax_persistent_cache_min_compile_time_secs at 0 for compiles of less than "
            "a second)"),
}

_LESS_OFTEN = "Launch less often with more work"
_LIBRARY = ("Call what launches it less often, with more work in each call, or capture the calls into a CUDA graph, "
            "where the library allows that.")
#: How fewer launches do the same work. Of the simulator no time counts.
FEWER_LAUNCHES = {
    **dict.fromkeys((*NUMBA, "cuda.core"), f"{_LESS_OFTEN}, or as a CUDA graph."),
    "cuda.compute": "Call it less often with more work in each call.",
    "quadrants": f"{_LESS_OFTEN}, or make the loop one kernel: @qd.kernel(graph=True).",
    "triton": f"{_LESS_OFTEN}, or as a CUDA graph (torch.cuda.graph).",
    "torch.compile": 'Compile more of the program as one function, or with mode="reduce-overhead", which makes CUDA '
                     "graphs.",
    "cupy": f"{_LESS_OFTEN}, or as a CUDA graph (stream.begin_capture).",
    "jax": "Put more of the work into one jitted function, such as the loop itself with jax.lax.scan.",
    "warp": f"{_LESS_OFTEN}, or as a CUDA graph (wp.ScopedCapture).",
    **dict.fromkeys(("cutile", "cute"), f"{_LESS_OFTEN}, or as a CUDA graph of its stream."),
    "driver": _LIBRARY,
}

#: Frameworks whose launches can be captured into a graph by the user, each with how; those of "" in no special way.
CAPTURE = {
    **dict.fromkeys((*NUMBA, "cuda.core", "cutile", "cute"), ""),
    "triton": "torch.cuda.graph", "cupy": "stream.begin_capture", "warp": "wp.ScopedCapture", "driver": "",
}
#: Frameworks that make their graphs themselves: what becomes of those is not the user's to change.
OWN_GRAPHS = ("quadrants", "torch.compile", "jax")

#: What makes arrays that a launch need not copy, where launches take host arrays.
DEVICE_ARRAYS = {**dict.fromkeys(NUMBA, "cuda.to_device"), "quadrants": "qd.ndarray"}
#: What wraps a foreign array once, where launches take anything with ``__cuda_array_interface__``.
WRAPPED_ONCE = {"numba-cuda": "cuda.as_cuda_array"}

#: What makes arrays in pinned memory; of the others none is known.
PINNED_MEMORY = {
    **dict.fromkeys(NUMBA, "cuda.pinned_array"), "triton": "tensor.pin_memory()", "torch.compile":
    "tensor.pin_memory()", "cupy": "cupyx.empty_pinned", "warp": 'wp.array(..., device="cpu", pinned=True)',
}
#: The same by library, of kernels that no probe recorded.
PINNED_BY_LIBRARY = {"PyTorch": "tensor.pin_memory()", "PyTorch Inductor": "tensor.pin_memory()",
                     "CuPy": "cupyx.empty_pinned"}

#: Frameworks in which the user chooses how many blocks a grid has, and how many threads a block.
GRIDS = (*NUMBA, "cuda.core", "triton", "cupy", "warp", "cutile", "cute")
BLOCKS = (*NUMBA, "simulator", "cuda.core", "cupy", "warp", "cute")
#: Frameworks in which the user writes what one thread does, and not what a tile does.
THREADS = (*NUMBA, "cuda.core", "cupy", "warp", "quadrants")

#: What spares compiles for other types of arguments, by reason code and framework.
ONE_TYPE: Mapping[str, Mapping[str, str]] = {
    "new_layout": {
        **dict.fromkeys(NUMBA, "pass arrays of one layout"),
        "torch.compile": "pass tensors of one layout, as .contiguous() makes them",
        "cupy": "pass arrays of one layout, as cupy.ascontiguousarray makes them",
        "warp": "pass arrays of one layout, as .contiguous() makes them",
        "cutile": "pass arrays of one layout",
        "cute": "pass tensors of one layout, or with .mark_layout_dynamic()",
    },
    "new_dtype": {
        **dict.fromkeys(NUMBA, "cast its arguments to one dtype before the launch"),
        "quadrants": "cast its arguments to one dtype before the launch",
        "triton": "pass tensors of one dtype, as .to(dtype) makes them",
        "torch.compile": "pass tensors of one dtype, as .to(dtype) makes them",
        "cupy": "pass arrays of one dtype, as .astype(dtype) makes them",
        "jax": "pass arrays of one dtype, as .astype(dtype) makes them",
        "warp": "pass arrays of one dtype",
        "cutile": "pass arrays of one dtype",
        "cute": "pass tensors of one dtype",
    },
    "new_scalar": {
        **dict.fromkeys(NUMBA, "pass numbers of one type, such as int(value)"),
        "triton": "annotate the number in the kernel, such as `n: tl.int64`, which takes all integers",
        "cupy": "pass numbers of one type, such as numpy.int32(value)",
        "jax": "pass numbers in one way, such as jnp.asarray(value, dtype)",
        "warp": "pass numbers of one type, such as wp.int32(value)",
        "cutile": "pass numbers of one type",
        "cute": "pass numbers of one type, such as cutlass.Int32(value)",
    },
    "tuple_arity": dict.fromkeys(NUMBA, "pass an array, which takes any number"),
    "launch_config": dict.fromkeys(NUMBA, "use fewer distinct grids, blocks and shared-memory sizes"),
}

#: What allows a kernel more registers.
MORE_REGISTERS = {
    **dict.fromkeys(NUMBA, "max_registers, smaller blocks"),
    "cuda.core": "ProgramOptions(max_register_count=...), smaller blocks",
    "cupy": "-maxrregcount in options, smaller blocks",
    "triton": "maxnreg, more num_warps for the same tile",
    "warp": "a smaller block_dim",
    "quadrants": "a smaller block_dim in qd.loop_config",
    "cutile": "a smaller tile",
    "cute": "a smaller tile",
}
#: What makes the rows of a shared array longer, such that they lie in other banks.
PADDED_ARRAY = {
    **dict.fromkeys(NUMBA, ", such as cuda.shared.array((32, 33), dtype)"),
    **dict.fromkeys(("cuda.core", "cupy"), ", such as __shared__ float tile[32][33]"),
    "warp": "", "quadrants": "", "cute": "",
}


class Maker(NamedTuple):
    """Whose a kernel is.

    Attributes
    ----------
    framework : str
        Its framework: one of `FRAMEWORKS`, or another one of a newer version's recording.
    owner : str
        ``user``, ``ufunc``, ``reduce`` or ``library``: see the table ``dispatchers``.
    """

    framework: str
    owner: str

    @property
    def is_library(self) -> bool:
        """Return whether a library made the kernel, so that the user chooses neither its arguments nor its grid."""
        return self.owner == "library"

    @property
    def of_user(self) -> str:
        """Return the framework where the user passes the arguments, else an empty string."""
        return "" if self.is_library else self.framework


def maker_of(dispatcher: Mapping[str, Any] | None) -> Maker:
    """Return whose a kernel is, a row of ``dispatchers``; None is a kernel that no probe recorded."""
    if dispatcher is None:
        return Maker("driver", "library")
    framework = str(dispatcher["framework"])
    return Maker(framework, owner_of(dispatcher) or ("library" if framework == "driver" else "user"))
