"""What Python runs when it starts where ``KERNELSCOPE_RECORD`` is set: it waits for a framework that may launch.

``kernelscope.pth`` imports it. It is apart from the package because it must load nothing: until a process imports such
a framework it starts as fast as ever. See `kernelscope.processes`.
"""

import os
import sys

#: A process that imports one of these may launch kernels, through a probe of ours or seen by CUPTI.
FRAMEWORKS = frozenset({
    "numba", "numba_cuda", "numba_cuda_mlir", "cuda.bindings", "cuda.core", "cuda.compute", "quadrants", "nvtx",
    "torch", "cupy", "jax", "jaxlib", "triton", "tensorflow", "rmm", "cudf", "pycuda", "warp", "taichi",
})
#: Imports from within these do not count: they switch the dry run on, or record by themselves.
_OURS = ("kernelscope.dryrun", "kernelscope.commands", "kernelscope.studies")


class Waiting:
    """Waits in ``sys.meta_path``."""

    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        """Start recording before the first of `FRAMEWORKS` is imported."""
        if fullname not in FRAMEWORKS or self not in sys.meta_path or _is_ours():
            return None
        try:
            sys.meta_path.remove(self)
        except ValueError:  # another thread has
            return None
        try:
            from kernelscope import processes

            processes.start_from_environment()
        except Exception as error:  # such as an installation that is not whole: the program goes on without us
            if sys.stderr is not None:
                print(f"kernelscope: pid {os.getpid()}: this process is not recorded: {error!r}", file=sys.stderr)
        from importlib.util import find_spec

        return find_spec(fullname)  # through the finders that probes have added


def _is_ours():  # type: ignore[no-untyped-def]
    """Whether KernelScope itself imports, as when it switches the dry run on: a program of the user's does so later."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name == "kernelscope" or name.startswith(_OURS):
            return True
        frame = frame.f_back
    return False


def wait():  # type: ignore[no-untyped-def]
    """Record this process as soon as it imports one of `FRAMEWORKS`."""
    if not any(type(finder).__name__ == "Waiting" for finder in sys.meta_path):
        folder = os.path.expanduser(os.environ["KERNELSCOPE_RECORD"])
        try:  # noqa: SIM105 contextlib would be one more module that is loaded
            # The program may change its working folder, and start others from there.
            os.environ["KERNELSCOPE_RECORD"] = os.path.abspath(folder)
        except OSError:  # the working folder was removed: who records says so
            pass
        sys.meta_path.insert(0, Waiting())
