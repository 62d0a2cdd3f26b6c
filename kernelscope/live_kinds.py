"""How live kernels of numba-cuda and of numba-cuda-mlir are read: where their specializations are, and with what."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kernelscope.probes import numba_cuda, numba_cuda_mlir
from kernelscope.probes.numba_cuda.code import CodeCapture
from kernelscope.probes.numba_cuda.facts import Facts
from kernelscope.probes.numba_cuda_mlir.code import CodeCapture as MlirCodeCapture
from kernelscope.probes.numba_cuda_mlir.facts import Facts as MlirFacts
from kernelscope.probes.numba_cuda_mlir.facts import compiled


@dataclass(frozen=True)
class Kind:
    """One framework's kernels.

    Attributes
    ----------
    load_modules : callable
        Returns the framework's modules, as its facts take them.
    facts, capture : type
        What makes rows of kernels, and of their code.
    family : callable
        ``(kernel) -> [(dispatcher, its compiled kernels)]``: the dispatcher, and those that it made of itself.
    devices : callable
        ``(compiled kernel) -> ordinals`` of the devices that it is loaded on, as far as that is known.
    compiles_copies : bool
        Whether a copy with line information can be compiled.
    """

    load_modules: Callable[[], Any]
    facts: type[Facts]
    capture: type[CodeCapture]
    family: Callable[[Any], list[tuple[Any, list[Any]]]]
    devices: Callable[[Any], Iterable[int]]
    compiles_copies: bool


def kind_of(value: Any) -> Kind | None:
    """Return what kind of kernel, or of device function, a value is; None where it is neither."""
    for path, name, kind in (("numba.cuda.dispatcher", "CUDADispatcher", _NUMBA_CUDA),
                             ("numba_cuda_mlir.descriptor", "MLIRDispatcher", _NUMBA_CUDA_MLIR)):
        dispatcher = getattr(sys.modules.get(path), name, None)
        if dispatcher is not None and isinstance(value, dispatcher):
            return kind
    return None


def _numba_family(kernel: Any) -> list[tuple[Any, list[Any]]]:
    found = [kernel]
    for each in found:
        found += [*list(each._launch_config_specializations.values()), *list(each.specializations.values())]
    return [(each, list(each.overloads.values())) for each in found]


def _mlir_family(kernel: Any) -> list[tuple[Any, list[Any]]]:
    found = [kernel]
    for each in found:
        found += list(each.specializations.values())
    return [(each, list(_with_code(each))) for each in found]


def _with_code(dispatcher: Any) -> Iterator[Any]:
    return (result for *_, result in compiled(dispatcher) if result.metadata.get("cubin") is not None)


_NUMBA_CUDA = Kind(numba_cuda.load_modules, Facts, CodeCapture, _numba_family,
                   lambda kernel: list(kernel._codelibrary._cufunc_cache), compiles_copies=True)
_NUMBA_CUDA_MLIR = Kind(numba_cuda_mlir.load_modules, MlirFacts, MlirCodeCapture, _mlir_family,
                        lambda kernel: (), compiles_copies=False)
