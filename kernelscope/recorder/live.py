"""Live kernels as recordings: what ``@cuda.jit`` has made of a function so far, read from its caches."""

from __future__ import annotations

import json
import sys
import weakref
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kernelscope.errors import KernelScopeError
from kernelscope.probes import numba_cuda, numba_cuda_mlir
from kernelscope.probes.driver import device
from kernelscope.probes.numba_cuda.compile import compile_copy
from kernelscope.probes.numba_cuda.kernels import KernelRows, NumbaCodeCapture
from kernelscope.probes.numba_cuda_mlir.kernels import KernelRows as MlirKernelRows
from kernelscope.probes.numba_cuda_mlir.kernels import MlirCodeCapture, compiled
from kernelscope.probes.sink import Sink
from kernelscope.recorder.environment import environment, shown_filename
from kernelscope.recorder.session import Session
from kernelscope.recording.build import RawRecording, build
from kernelscope.recording.model import Recording
from kernelscope.schema import SCHEMA_VERSION


@dataclass(frozen=True)
class Kind:
    """One framework's kernels.

    Attributes
    ----------
    load_modules : callable
        Returns the framework's modules, as its description of kernels takes them.
    rows, capture : type
        What makes rows of kernels, and of their code.
    family : callable
        ``(kernel) -> [(dispatcher, its compiled kernels)]``: the dispatcher, and those that it made of itself.
    devices : callable
        ``(compiled kernel) -> ordinals`` of the devices that it is loaded on, as far as that is known.
    compiles_copies : bool
        Whether a copy with line information can be compiled.
    """

    load_modules: Callable[[], Any]
    rows: type[KernelRows]
    capture: type[NumbaCodeCapture]
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
    return [(each, [result for *_, result in compiled(each) if result.metadata.get("cubin") is not None])
            for each in found]


_NUMBA_CUDA = Kind(numba_cuda.load_modules, KernelRows, NumbaCodeCapture, _numba_family,
                   lambda kernel: list(kernel._codelibrary._cufunc_cache), compiles_copies=True)
_NUMBA_CUDA_MLIR = Kind(numba_cuda_mlir.load_modules, MlirKernelRows, MlirCodeCapture, _mlir_family,
                        lambda kernel: (), compiles_copies=False)


# Live kernels as recordings: what ``@cuda.jit`` has made of a function so far, read from its caches.
#
# Nothing here compiles, loads or launches, except `with_lineinfo`, which compiles a copy. Kernels are numba-cuda's
# and numba-cuda-mlir's: `Kind` knows how they differ.

# The compiled kernels of each dispatcher in the order in which they were first seen: what their ids count.
_seen: weakref.WeakKeyDictionary[Any, list[weakref.ref[Any]]] = weakref.WeakKeyDictionary()


def is_kernel(value: Any) -> bool:
    """Return whether `value` is a kernel that ``@cuda.jit`` made: no device function, no configured launch."""
    return kind_of(value) is not None and not value.targetoptions.get("device")


def described(value: Any) -> str:
    """Return how a message describes a value that is no kernel."""
    if kind_of(value) is not None:
        return f"the device function {value.py_func.__name__!r}, which is compiled as a part of kernels,"
    for path, name, owner in (("numba.cuda.dispatcher", "_LaunchConfiguration", "dispatcher"),
                              ("numba_cuda_mlir.descriptor", "_ArgMarshaller", "_dispatcher")):
        configured = getattr(sys.modules.get(path), name, None)
        if configured is not None and isinstance(value, configured):
            return f"{getattr(value, owner).py_func.__name__!r} with a launch configuration"
    return f"a value of type {type(value).__name__}"


def state(kernel: Any) -> Hashable:
    """Return what changes when specializations appear or go, and is equal otherwise; it takes microseconds.

    Parameters
    ----------
    kernel : CUDADispatcher or MLIRDispatcher
        A kernel: see `is_kernel`.
    """
    # An address alone may be that of an earlier kernel, which recompile() has dropped; the counters only grow.
    return tuple(
        (id(owner), sum(owner._cache_hits.values()), sum(owner._cache_misses.values()), tuple(map(id, kernels)))
        for owner, kernels in _kind(kernel).family(kernel)
    )


def can_compile_copies(kernel: Any) -> bool:
    """Return whether `with_lineinfo` can make a copy of a kernel: of numba-cuda's."""
    return _kind(kernel).compiles_copies


def snapshot(kernel: Any) -> Recording:
    """Return a recording without launches that holds the kernel, its specializations, and their code.

    Those that it compiled for particular launch configurations, and those that ``specialize()`` and ``forall`` made,
    are included. Ids of specializations stay the same in the next snapshot while none of them goes. SASS is left out:
    that takes half a second or more, and `kernelscope.cubin` makes it of the machine code when it is shown.

    Parameters
    ----------
    kernel : CUDADispatcher or MLIRDispatcher
        A kernel: see `is_kernel`.

    Raises
    ------
    TypeError
        `kernel` is none.
    """
    kind = _kind(kernel)
    sink = Sink()
    rows = kind.rows(sink, kind.load_modules())
    owner = rows.dispatcher(kernel)
    numbers = [rows.specialization(dispatcher, each) for dispatcher, each in _specializations(kernel)]
    for _, each in _specializations(kernel):
        for ordinal in kind.devices(each):
            device(sink, ordinal)
    rows.describe(())
    kind.capture(sink, rows).capture(numbers, sass=False)
    dispatchers = [{**row, "filename": shown_filename(row.get("filename"))} for row in sink.dispatchers.rows]
    health = [*sink.stated.values()]
    for probe, count in sink.errors.items():
        health.append({"probe": probe, "status": "degraded", "errors": count, "message": sink.first_errors[probe]})
    return build(RawRecording(
        dispatchers=dispatchers, specializations=list(sink.specializations.rows), devices=list(sink.devices.rows),
        code=list(sink.code), health=health,
        metadata={"name": dispatchers[owner]["name"], "schema_version": SCHEMA_VERSION, "code": True,
                  "created": datetime.now(UTC).isoformat(timespec="seconds"), "probes": [rows.framework],
                  **environment()},
    ))


def with_lineinfo(kernel: Any, specialization_id: int) -> dict[str, str]:
    """Compile a copy of one specialization with line information and return its ``ptx``, ``cubin`` and ``sass``.

    The copy is neither loaded nor launched. The kernel, its caches and counters stay as they are, and a recording under
    way does not see it. A specialization that is bound to a launch configuration is compiled for that one.

    Parameters
    ----------
    kernel : CUDADispatcher
        A kernel: see `is_kernel`.
    specialization_id : int
        A row of ``specializations`` in its newest `snapshot`.

    Returns
    -------
    dict of str to str
        By kind, as in the table ``code``; ``sass`` is missing where there is no nvdisasm.

    Raises
    ------
    TypeError
        `kernel` is none.
    KernelScopeError
        There is no such specialization any more, or numba-cuda cannot compile it; or it is no kernel of numba-cuda.
    """
    kind = _kind(kernel)
    if not kind.compiles_copies:
        raise KernelScopeError("copies with line information are made of numba-cuda's kernels only: define this one "
                               "with @cuda.jit(lineinfo=True)")
    modules = kind.load_modules()
    known = _specializations(kernel)
    if not 0 <= specialization_id < len(known):
        raise KernelScopeError(f"{kernel.py_func.__name__!r} has {len(known)} specializations now and no number "
                               f"{specialization_id}: take a new snapshot")
    owner, compiled = known[specialization_id]
    rows = KernelRows(Sink(), modules)
    row = rows.sink.specializations.rows[rows.specialization(owner, compiled)]
    bound = None if row["launch_config"] is None else json.loads(row["launch_config"])
    key = None if bound is None else (bound["griddim"], bound["blockdim"], bound["sharedmem_bytes"])
    active = Session.active
    return compile_copy(modules, owner, compiled, key, None if active is None else active.sink)


def _kind(kernel: Any) -> Kind:
    kind = kind_of(kernel)
    if kind is None or kernel.targetoptions.get("device"):
        raise TypeError(f"a {type(kernel).__name__} is no kernel: give a function that @cuda.jit made")
    return kind


def _specializations(kernel: Any) -> list[tuple[Any, Any]]:
    """Return each compiled kernel with its dispatcher: known ones first and in the same order, new ones at the end."""
    there = {id(each): (owner, each) for owner, kernels in _kind(kernel).family(kernel)
             for each in kernels}
    order = [each for each in (reference() for reference in _seen.get(kernel, ())) if each is not None]
    order = [each for each in order if id(each) in there]
    listed = {id(each) for each in order}
    order += [each for key, (_, each) in there.items() if key not in listed]
    _seen[kernel] = [weakref.ref(each) for each in order]
    return [there[id(each)] for each in order]
