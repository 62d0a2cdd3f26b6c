"""Launches by other types than the only signature of a kernel, which numba-cuda takes for all that it is given."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import cuda
from numba.cuda import types

import kernelscope
from kernelscope.analysis.unchecked import UncheckedLaunches, unchecked_launches
from kernelscope.probes.numba_cuda import NumbaCudaProbe
from kernelscope.recorder import overhead
from kernelscope.recorder.overhead import Stated
from kernelscope.recording.model import Recording
from kernelscope.views.card.model import Overview
from kernelscope.views.card.sections import card_from
from kernelscope.views.card.text import summary

pytestmark = pytest.mark.filterwarnings("ignore:.*Host array used in CUDA kernel")

FLOATS, DOUBLES = np.zeros((4, 4), np.float32), np.zeros((4, 4))
RECORDS = np.dtype([("a", "i4")])


def declared(signature: str | list[str], arguments: str = "x, n") -> Any:
    space: dict[str, Any] = {"cuda": cuda, "signature": signature}
    exec(f"@cuda.jit(signature)\ndef kernel({arguments}):\n    pass", space)
    return space["kernel"]


def recorded(kernel: Any, *launches: tuple[Any, ...]) -> Recording:
    with kernelscope.record() as recorder:
        for arguments in launches:
            kernel[1, 32](*arguments)
    recording = recorder.recording
    assert recording.health.errors.isna().all(), recording.health.to_string()
    assert len(recording.launches) == len(launches) and recording.launches.error.isna().all()
    return recording


def told(found: list[UncheckedLaunches]) -> list[tuple[str | None, str, str, int]]:
    return [(each.argument, each.declared, each.passed, each.launches) for each in found]


@pytest.mark.parametrize(("signature", "arguments", "expected"), [
    ("void(float32[:,:], int32)", (DOUBLES, 1), ("x", "float32[:, :] A", "float64[:, :] C")),
    ("void(float32[:], int32)", (FLOATS, 1), ("x", "float32[:] A", "float32[:, :] C")),
    ("void(float32[:,::1], int32)", (np.asfortranarray(FLOATS), 1), ("x", "float32[:, :] C", "float32[:, :] F")),
    ("void(float32[:,::1], int32)", (cuda.to_device(FLOATS)[:, 1:], 1), ("x", "float32[:, :] C", "float32[:, :] A")),
    ("void(int32[:], int32)", (np.zeros(3, RECORDS), 1),
     ("x", "int32[:] A", "Record(a[type=int32;offset=0];4;False)[:] C unaligned")),
    ("void(float32[:,:], int32)", (FLOATS, 1 << 33), ("n", "int32", "an integer that it does not hold")),
    ("void(float32[:,:], uint8)", (FLOATS, -1), ("n", "uint8", "an integer that it does not hold")),
    ("void(float32[:,:], int32)", (FLOATS,), (None, "2 arguments", "1")),
    ("void(UniTuple(float32[:,:], 2), int32)", ((FLOATS, DOUBLES), 1),
     ("x", "UniTuple(array(float32, 2d, A) x 2)", "float64[:, :] C")),
])
def test_what_numba_cuda_passes_on_as_another_type(signature: str, arguments: tuple[Any, ...],
                                                   expected: tuple[Any, ...]) -> None:
    if "UniTuple" in signature:
        signature = types.void(types.UniTuple(types.float32[:, :], 2), types.int32)
    found = unchecked_launches(recorded(declared(signature), arguments, arguments))
    assert told(found) == [(*expected, 2)]
    assert found[0].fix


@pytest.mark.parametrize(("signature", "arguments"), [
    ("void(float32[:,:], int32)", (FLOATS, 1)), ("void(float32[:,:], int32)", (np.asfortranarray(FLOATS), True)),
    ("void(float32[:,:], int32)", (cuda.to_device(FLOATS)[:, 1:], np.int64(5))),
    ("void(float32[::1], float32)", (np.zeros(3, np.float32), 1)), ("void(float32[:,:], float64)", (FLOATS, 1 << 40)),
    ("void(float32[:,:], int64)", (FLOATS, 1 << 33)), (["void(float32[:,:], int32)"], (FLOATS, 1)),
])
def test_what_is_passed_rightly(signature: Any, arguments: tuple[Any, ...]) -> None:
    assert unchecked_launches(recorded(declared(signature), arguments)) == []


def test_the_types_are_compared_at_every_launch_and_counted() -> None:
    kernel = declared("void(float32[:,:], int32)")
    good, bad = (cuda.to_device(FLOATS), 1), (cuda.to_device(DOUBLES), 1 << 40)
    recording = recorded(kernel, good, bad, good, bad, bad)
    assert told(unchecked_launches(recording)) == [
        ("x", "float32[:, :] A", "float64[:, :] C", 3), ("n", "int32", "an integer that it does not hold", 3)]
    assert recording.launches.specialization_id.nunique() == 1
    with kernelscope.record() as again:
        kernel[1, 32](*good)
    assert unchecked_launches(again.recording) == []


def test_what_specialize_returns_is_compared_too() -> None:
    @cuda.jit
    def kernel(x):
        pass

    special = kernel.specialize(cuda.to_device(FLOATS))
    recording = recorded(special, (cuda.to_device(DOUBLES),))
    assert told(unchecked_launches(recording)) == [("x", "float32[:, :] C", "float64[:, :] C", 1)]
    with kernelscope.record() as recorder:
        kernel.forall(4)(cuda.to_device(DOUBLES))
    assert unchecked_launches(recorder.recording) == [], "forall takes one for the types that it is given"


def test_the_card_warns_with_kernel_argument_types_and_fix() -> None:
    recording = recorded(declared("void(float32[:,:], int32)"), (DOUBLES, 1))
    shown = Overview(recording)
    label, note = card_from(shown).problems[0]
    assert label == "wrong arguments"
    assert note == (
        "1 launch of kernel passed argument `x` as float64[:, :] C, which is declared as float32[:, :] A: numba-cuda "
        "does not check it where a kernel has one signature, and the kernel reads wrong data; pass `x` as "
        "float32[:, :] A, or declare all signatures in a list, as in @cuda.jit([...]), which numba-cuda does check")
    assert "wrong arguments: 1 launch of kernel passed" in " ".join(summary(recording).split())


def test_a_list_of_signatures_is_checked_by_numba_cuda() -> None:
    """The fix does what it says."""
    with pytest.raises(TypeError, match="No matching definition"):
        declared(["void(float32[:,:], int32)"])[1, 32](DOUBLES, 1)
    both = declared(["void(float32[:,:], int32)", "void(float64[:,:], int32)"])
    assert unchecked_launches(recorded(both, (DOUBLES, 1), (FLOATS, 1))) == []


def test_arguments_are_not_kept_and_odd_ones_do_no_harm() -> None:
    class Odd:
        """Somebody else's array, whose attributes raise."""

        def __init__(self, array: Any) -> None:
            self.array = array

        @property
        def dtype(self) -> Any:
            raise ValueError("no dtype here")

        @property
        def __cuda_array_interface__(self) -> Any:
            return self.array.__cuda_array_interface__

    odd = Odd(cuda.to_device(DOUBLES))
    alive = weakref.ref(odd)
    kernel = declared("void(float32[:,:], int32)")
    recording = recorded(kernel, (odd, 1), (cuda.to_device(DOUBLES), 1))
    assert told(unchecked_launches(recording)) == [("x", "float32[:, :] A", "float64[:, :] C", 2)]
    del odd
    gc.collect()
    assert alive() is None


def test_what_the_comparing_takes_is_measured_and_stated() -> None:
    kernel = declared("void(float32[:,:], int32)")
    array = cuda.to_device(FLOATS)
    configured = kernel[1, 32]
    with kernelscope.record() as recorder:
        for _ in range(101):
            configured(array, 1)
    usual, comparing = (row for row in recorder.recording.rows("health") if row["probe"] == "numba-cuda")
    assert usual["cost_ns"] * 101 == pytest.approx(usual["total_cost_ns"])
    assert comparing["message"].startswith("measured: ") and comparing["message"].endswith(", 100 times")
    assert comparing["cost_ns"] is None and comparing["total_cost_ns"] > 0
    assert Overview(recorder.recording).cost.total_ns == usual["total_cost_ns"] + comparing["total_cost_ns"]
    [other] = (row for row in recorded(declared("void(float32[:,:], int32)", "x, n")).rows("health")
               if row["probe"] == "numba-cuda")
    assert other["cost_ns"] is not None


def test_the_comparing_makes_a_calibrated_cost_a_partly_calibrated_one() -> None:
    class Checking(NumbaCudaProbe):
        is_hooked = True

        def checking_cost(self) -> tuple[int, int]:
            return 10, 30_000

    found = Stated(300.0, "calibrated", {"kind": "calibrated", "low_ns": 200, "high_ns": 400})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overhead, "_stated", lambda *_: found)
        sink: Any = SimpleNamespace(has_stacks=False, detail="phases")
        rows, how = overhead.recording_cost([Checking()], sink, {"numba-cuda": 10}, 0)
    assert how == {"numba-cuda": {"kind": "partly calibrated"}}
    assert [row["total_cost_ns"] for row in rows] == [3000, 30_000]
