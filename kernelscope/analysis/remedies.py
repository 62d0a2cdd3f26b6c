"""What the user of each framework can do: texts of advice by framework.

A framework that is not in a table, such as one of a newer version's recording, has no such remedy, and advice that
needs one is not given for its kernels. Nothing stands for "all others".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kernelscope.analysis.columns import owner_of
from kernelscope.registry import frameworks

#: Every framework that a row of ``dispatchers`` can name.
FRAMEWORKS = (
    "numba-cuda", "numba-cuda-mlir", "simulator", "cuda.compute", "quadrants", "triton", "torch.compile",
    *(framework.name for framework in frameworks()), "driver",
)
NUMBA = ("numba-cuda", "numba-cuda-mlir")
#: Those that compile what the user wrote for the arguments that it is called with, each time a row of ``compilations``.
COMPILING = (*NUMBA, "quadrants", "triton", "torch.compile",
             *(framework.name for framework in frameworks() if framework.compiles))


def _of_frameworks(remedy: str) -> dict[str, str]:
    """Return what the frameworks that are folders say of a remedy, by their names."""
    return {framework.name: framework.remedies[remedy] for framework in frameworks() if remedy in framework.remedies}


#: How a compile is kept for the next session. Others keep theirs on disk by default; the simulator compiles nothing.
DISK_CACHE = {
    **dict.fromkeys(NUMBA, "cache=True in @cuda.jit"),
    "quadrants": "qd.init(offline_cache=True)",
    **_of_frameworks("disk_cache"),
}

_LESS_OFTEN = "Launch less often with more work"
_LIBRARY = ("Call what launches it less often, with more work in each call, or capture the calls into a CUDA graph, "
            "where the library allows that.")
#: How fewer launches do the same work. Of the simulator no time counts.
FEWER_LAUNCHES = {
    **dict.fromkeys(NUMBA, f"{_LESS_OFTEN}, or as a CUDA graph."),
    "cuda.compute": "Call it less often with more work in each call.",
    "quadrants": f"{_LESS_OFTEN}, or make the loop one kernel: @qd.kernel(graph=True).",
    "triton": f"{_LESS_OFTEN}, or as a CUDA graph (torch.cuda.graph).",
    "torch.compile": 'Compile more of the program as one function, or with mode="reduce-overhead", which makes CUDA '
                     "graphs.",
    "driver": _LIBRARY,
    **_of_frameworks("fewer_launches"),
}

#: Frameworks whose launches can be captured into a graph by the user, each with how; those of "" in no special way.
CAPTURE = {**dict.fromkeys(NUMBA, ""), "triton": "torch.cuda.graph", "driver": "", **_of_frameworks("capture")}
#: Frameworks that make their graphs themselves: what becomes of those is not the user's to change.
OWN_GRAPHS = ("quadrants", "torch.compile", *_of_frameworks("own_graphs"))

#: What makes arrays that a launch need not copy, where launches take host arrays.
DEVICE_ARRAYS = {**dict.fromkeys(NUMBA, "cuda.to_device"), "quadrants": "qd.ndarray"}
#: What wraps a foreign array once, where launches take anything with ``__cuda_array_interface__``.
WRAPPED_ONCE = {"numba-cuda": "cuda.as_cuda_array"}

#: What makes arrays in pinned memory; of the others none is known.
PINNED_MEMORY = {
    **dict.fromkeys(NUMBA, "cuda.pinned_array"),
    **dict.fromkeys(("triton", "torch.compile"), "tensor.pin_memory()"),
    **_of_frameworks("pinned_memory"),
}
#: The same by library, of kernels that no probe recorded.
PINNED_BY_LIBRARY = {"PyTorch": "tensor.pin_memory()", "PyTorch Inductor": "tensor.pin_memory()",
                     "CuPy": "cupyx.empty_pinned"}

#: Frameworks in which the user chooses how many blocks a grid has, and how many threads a block.
GRIDS = (*NUMBA, "triton", *_of_frameworks("grids"))
BLOCKS = (*NUMBA, "simulator", *_of_frameworks("blocks"))
#: Frameworks in which the user writes what one thread does, and not what a tile does.
THREADS = (*NUMBA, "quadrants", *_of_frameworks("threads"))
#: Of these, those in which that is CUDA's threadIdx.
THREAD_IDX = (*NUMBA, *_of_frameworks("thread_idx"))

#: What spares compiles for other types of arguments, by reason code and framework.
ONE_TYPE: Mapping[str, Mapping[str, str]] = {
    "new_layout": {
        **dict.fromkeys(NUMBA, "pass arrays of one layout"),
        "torch.compile": "pass tensors of one layout, as .contiguous() makes them",
        **_of_frameworks("new_layout"),
    },
    "new_dtype": {
        **dict.fromkeys(NUMBA, "cast its arguments to one dtype before the launch"),
        "quadrants": "cast its arguments to one dtype before the launch",
        "triton": "pass tensors of one dtype, as .to(dtype) makes them",
        "torch.compile": "pass tensors of one dtype, as .to(dtype) makes them",
        **_of_frameworks("new_dtype"),
    },
    "new_scalar": {
        **dict.fromkeys(NUMBA, "pass numbers of one type, such as int(value)"),
        "triton": "annotate the number in the kernel, such as `n: tl.int64`, which takes all integers",
        **_of_frameworks("new_scalar"),
    },
    "tuple_arity": dict.fromkeys(NUMBA, "pass an array, which takes any number"),
    "launch_config": dict.fromkeys(NUMBA, "use fewer distinct grids, blocks and shared-memory sizes"),
}

#: What allows a kernel more registers.
MORE_REGISTERS = {
    **dict.fromkeys(NUMBA, "max_registers, smaller blocks"),
    "triton": "maxnreg, more num_warps for the same tile",
    "quadrants": "a smaller block_dim in qd.loop_config",
    **_of_frameworks("more_registers"),
}
#: What makes the rows of a shared array longer, such that they lie in other banks.
PADDED_ARRAY = {
    **dict.fromkeys(NUMBA, ", such as cuda.shared.array((32, 33), dtype)"),
    "quadrants": "",
    **_of_frameworks("padded_array"),
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
