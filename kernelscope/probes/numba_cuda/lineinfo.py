"""A copy of a compiled kernel, compiled once more with line information; the kernel itself is not touched."""

from __future__ import annotations

import base64
import warnings
from contextlib import suppress
from typing import Any

from kernelscope import nvdisasm
from kernelscope.errors import DisassemblerError, KernelScopeError
from kernelscope.probes.sink import Sink


def compile_copy(modules: Any, dispatcher: Any, kernel: Any, bound: tuple[Any, ...] | None,
                 sink: Sink | None) -> dict[str, str]:
    """Return the code of a copy: ``ptx``, ``cubin`` (base64), and ``sass`` where nvdisasm can be had.

    The copy is neither loaded nor launched, and in no cache.

    Parameters
    ----------
    modules : object
        numba-cuda's modules: see `kernelscope.probes.numba_cuda.load_modules`.
    dispatcher, kernel : object
        A ``CUDADispatcher`` and one of its compiled ``_Kernel`` objects.
    bound : tuple or None
        The launch configuration that the kernel is bound to (LC-S): grid, block, shared memory. The copy is compiled
        inside an equal one.
    sink : Sink or None
        Of the recording under way, which the copy leaves no trace in.

    Raises
    ------
    KernelScopeError
        numba-cuda cannot compile it; the message says why.
    """
    options = dict(dispatcher.targetoptions, lineinfo=not dispatcher.targetoptions.get("debug"))
    options["link"] = list(options.get("link") or ())  # a compile appends to it
    capability = next(reversed(kernel._codelibrary._cubin_cache), None)

    def build() -> Any:
        copy = modules.dispatcher._Kernel(dispatcher.py_func, kernel.argument_types, **options)
        copy._codelibrary.get_cubin(cc=capability)
        return copy

    name = dispatcher.py_func.__name__
    with _Unrecorded(sink), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user has seen what numba warns of
        try:
            copy = build() if bound is None else _inside(modules, dispatcher, options, bound, build)
        except Exception as error:
            said = " ".join(str(error).split())[:500]
            raise KernelScopeError(f"a copy of {name!r} with line information cannot be compiled: "
                                   f"{type(error).__name__}: {said}") from error
    library = copy._codelibrary
    made = library._cubin_cache[capability] if capability is not None else next(iter(library._cubin_cache.values()))
    code = bytes(getattr(made, "code", made))
    ptx = library._ptx_cache.get(capability) or next(reversed(library._ptx_cache.values()))
    result = {"ptx": "\n\n".join(ptx), "cubin": base64.b64encode(code).decode("ascii")}
    # Whoever shows it finds out from the machine code why there is none.
    with suppress(DisassemblerError):
        result["sass"] = nvdisasm.disassemble(code)
    return result


def _inside(modules: Any, dispatcher: Any, options: dict[str, Any], bound: tuple[Any, ...], build: Any) -> Any:
    """Run `build` as a launch with that configuration would: numba-cuda sets the current one inside a call only."""
    grid, block, sharedmem = bound
    stand_in = modules.dispatcher.CUDADispatcher(dispatcher.py_func, options)
    config = modules.dispatcher._LaunchConfiguration(stand_in, tuple(grid), tuple(block), 0, sharedmem)
    built: list[Any] = []

    def compile_for_args(*_: Any, **__: Any) -> Any:
        built.append(build())
        return built[0]

    stand_in._compile_for_args = compile_for_args
    base = modules.dispatcher._dispatcher.Dispatcher
    # It has no overload that could match the arguments, whatever they are.
    arguments = (0,) * dispatcher.py_func.__code__.co_argcount
    base._cuda_call(stand_in, *arguments, **{modules.dispatcher._LAUNCH_CONFIG_KW: config})
    return built[0]


class _Unrecorded:
    """While it is entered, passes and phases of this thread's compiles go nowhere."""

    def __init__(self, sink: Sink | None) -> None:
        self._state = None if sink is None else sink.state()
        self._outer: Any = None

    def __enter__(self) -> None:
        if self._state is not None:
            self._outer, self._state.compilation = self._state.compilation, {"_passes": []}

    def __exit__(self, *_: object) -> None:
        if self._state is not None:
            self._state.compilation = self._outer
