"""Rooflines: the numbers are those that Nsight Compute's own give, and what is not known is said."""

from __future__ import annotations

import statistics
from typing import Any

import measured
import pytest
from handmade import Script

from kernelscope.features.metrics.analyse import by_specialization
from kernelscope.features.metrics.analyse import measured as measured_in
from kernelscope.features.roofline.analyse import Point, Roofline, rooflines

_OPS = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"
_NAMES = [name if name != "axpy" else f"axpy {signature[1:8]}" for name, _, signature, *_ in measured.SPECIALIZATIONS]


def _only(made: Script | Any) -> Roofline:
    (found,) = rooflines(made.recording() if isinstance(made, Script) else made)
    return found


def _points(made: Script | Any) -> dict[str, Point]:
    return dict(zip(_NAMES, _only(made).points, strict=True))


@pytest.mark.parametrize("at", range(9), ids=_NAMES)
def test_numbers_are_those_of_nsight_compute(at: int) -> None:
    point, ncu = _only(measured.script(only=(at,), launches=1)).points[0], measured.ncu(at)
    lasted = ncu["gpu__time_duration.sum"] * 1e-9
    flops = {"FP32": ncu[_OPS.format("fadd")] + ncu[_OPS.format("fmul")] + 2 * ncu[_OPS.format("ffma")],
             "FP64": ncu[_OPS.format("dadd")] + ncu[_OPS.format("dmul")] + 2 * ncu[_OPS.format("dfma")], "FP16": 0}
    assert point.flops == flops
    used = max(flops.values())
    assert point.flops_per_second == pytest.approx(used / lasted)
    assert point.intensity() == pytest.approx(used / ncu["dram__bytes.sum"])
    assert point.intensity("L2") == pytest.approx(used / ncu["lts__t_bytes.sum"])
    # What Nsight Compute says itself of the share of DRAM's peak, in two decimals.
    peak = ncu["dram__bytes.sum.peak_sustained"] * ncu["dram__cycles_elapsed.avg.per_second"]
    assert 100 * (point.bytes_per_second() or 0) / peak == pytest.approx(
        ncu["dram__throughput.avg.pct_of_peak_sustained_elapsed"], abs=0.02)


def test_the_roofs_are_those_of_the_chart() -> None:
    roofs, ncu = _only(measured.script(only=(4,), launches=1)).roofs, measured.ncu(4)
    clock = ncu["sm__cycles_elapsed.avg.per_second"]
    assert roofs.flops == pytest.approx({"FP32": 2 * 132 * 128 * clock, "FP64": 2 * 132 * 64 * clock,
                                         "FP16": 4 * 132 * 128 * clock})
    assert roofs.bytes == pytest.approx({"DRAM": 1504 * ncu["dram__cycles_elapsed.avg.per_second"],
                                         "L2": 9024 * ncu["lts__cycles_elapsed.avg.per_second"]})
    assert roofs.dram == roofs.copy == measured.COPY


def test_bound_and_distance() -> None:
    points = _points(measured.script())
    assert {name: (point.bound, point.roof) for name, point in points.items()} == {
        "copy": ("memory", "DRAM"), "axpy float32": ("memory", "DRAM"), "axpy float64": ("memory", "DRAM"),
        "naive_product": ("compute", "FP32"), "tiled_product": ("compute", "FP32"), "reduction": ("memory", "DRAM"),
        "naive_transpose": ("memory", "L2"), "transpose": ("memory", "DRAM"), "padded_transpose": ("memory", "DRAM")}
    tiled = points["tiled_product"]
    assert tiled.share == pytest.approx((tiled.flops_per_second or 0) / (2 * 132 * 128 * 1.5025e9), rel=0.01)
    axpy = points["axpy float32"]
    assert axpy.share == pytest.approx((axpy.bytes_per_second() or 0) / measured.COPY)
    assert points["axpy float64"].precision == "FP64"
    assert points["copy"].flops_per_second == 0 and points["copy"].precision is None


def test_launches_of_a_specialization_are_one_point_of_medians() -> None:
    made = measured.script(only=(0,), launches=1)
    for lasted in (10.0, 30.0, 1e9):
        made.measurement(0, {"gpu__time_duration.sum": lasted}, launch_id=0)
    (point,) = _only(made).points
    # Four measurements of one launch, as of a set in parts; the fourth value is the first launch's own.
    assert point.measured.count == 1
    assert point.duration_ns == statistics.median((10.0, 30.0, 1e9, measured.ncu(0)["gpu__time_duration.sum"]))
    assert point.bytes["DRAM"] == measured.ncu(0)["dram__bytes.sum"]


def test_a_kernel_that_is_faster_than_the_copy() -> None:
    found = _only(measured.script(copy=1.82e12))
    assert found.roofs.dram == found.roofs.bytes["DRAM"]
    assert found.notes == ("A copy on this device reached 1.82 TB/s, and axpy 2.98 TB/s: DRAM's roof is its peak.",)
    assert all((point.share or 0) < 1 for point in found.points)
    assert _only(measured.script(copy=None)).notes == (
        "The bandwidth of a copy on this device was not measured: DRAM's roof is its peak.",)


def _without(*names: str, value: bool = False) -> Point:
    """A tiled product without some metrics, or with metrics that could not be had."""
    made = measured.script(only=(4,), launches=1)
    kept = made.rows["metrics"] if value else [row for row in made.rows["metrics"] if row["name"] not in names]
    made.rows["metrics"] = [{**row, "value": None} if row["name"] in names else row for row in kept]
    return _only(made).points[0]


def test_what_is_missing_is_said_and_not_guessed() -> None:
    point = _without(_OPS.format("fadd"))
    assert point.intensity() == 0 and "FP32" not in point.flops
    assert (point.roof, point.share, point.bound) == (None, None, None)
    assert point.missing == ("its FP32 counts were not measured: measure the set roofline",)
    point = _without(_OPS.format("fadd"), value=True)
    assert point.missing == ("the GPU did not give its FP32 counts",) and point.roof is None
    point = _without(_OPS.format("ffma") + ".peak_sustained")
    assert point.missing == ("the peak of FP32 was not measured",) and point.roof is None
    point = _without("gpu__time_duration.sum")
    assert point.missing[0] == "its time was not measured (gpu__time_duration.sum)"
    assert (point.flops_per_second, point.bytes_per_second(), point.share) == (None, None, None)
    point = _without("sm__inst_executed_pipe_tensor.sum")
    assert point.missing == ("instructions of tensor cores were not measured",)
    assert _without().missing == ()


def test_operations_of_tensor_cores_are_not_derived() -> None:
    made = measured.script(only=(4,), launches=1, **{"sm__inst_executed_pipe_tensor.sum": 4_096.0})
    (point,) = _only(made).points
    assert point.missing == ("4,096 tensor instructions a launch: their operations depend on the instruction's shape, "
                             "which is not counted, so they are left out",)
    assert point.roof is None and point.flops["FP32"] == 2 * 1_073_741_824


def test_half_precision_works_on_pairs() -> None:
    counts = {_OPS.format(name): 0.0 for name in ("fadd", "fmul", "ffma")}
    counts |= {_OPS.format("hadd"): 3.0, _OPS.format("hmul"): 5.0, _OPS.format("hfma"): 7.0}
    (point,) = _only(measured.script(only=(4,), launches=1, **counts)).points
    assert point.flops["FP16"] == 2 * 3 + 2 * 5 + 4 * 7 and point.precision == "FP16"


def test_kernels_that_no_probe_recorded() -> None:
    made = measured.script(only=(), launches=0)
    made.measurement(None, measured.ncu(5), entry_name="_Z3sum")
    made.measurement(None, measured.ncu(4), entry_name="_Z4gemm", name="gemm")
    found = _only(made)
    assert [(each.kernel, each.arguments, each.measured.specialization_id) for each in found.points] == [
        ("library kernel", "", None), ("gemm", "", None)]


def test_rows_alone_are_enough() -> None:
    rows = [{"measurement_id": at, "name": "k", "entry_name": None, "specialization_id": 0, "configuration_id": 2,
             "device_id": 0, "launch_id": None} for at in range(3)]
    metrics = [{"measurement_id": at, "name": "dram__bytes.sum", "value": value}
               for at, value in enumerate((1.0, None, 9.0))]
    (each,) = by_specialization(rows, metrics, [7])
    assert (each.dispatcher_id, each.count, dict(each.values), each.missing) == (7, 3, {"dram__bytes.sum": 5.0}, ())


def test_a_recording_without_measurements() -> None:
    made = Script()
    assert measured_in(made.recording()) == [] and rooflines(made.recording()) == []
