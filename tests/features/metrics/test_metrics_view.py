"""What is shown of the metrics of measured kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from handmade import Script

import kernelscope
from kernelscope.errors import UnknownKernelError
from kernelscope.features.metrics.view import MetricsView

RECORDINGS = Path(__file__).parents[3] / "notebooks" / "recordings"


@pytest.fixture
def full():
    """Two measured launches: what an instruction of one did is known, of the other nothing could be had."""
    made = Script()
    made.cell()
    made.device()
    made.configuration()
    made.specialization(made.kernel("axpy"))
    made._add("metrics", None, {"measurement_id": made.measurement(), "name": "dram__bytes.sum", "pc_offset": 16,
                                "value": 1.5, "unit": "byte"})
    made.measurement(None, {"dram__bytes.sum": None}, replay="user")
    return made.recording()


def test_metrics_of_a_recording(full):
    view = kernelscope.metrics(full)
    frame = view.to_frame()
    assert frame.metric.tolist() == ["dram__bytes.sum"]
    assert "DRAM, read and written" in str(view) and view.kernels[0].count >= 1


def test_what_a_real_recording_says_of_its_kernels():
    view = kernelscope.metrics(kernelscope.load(RECORDINGS / "counters.kscope"))
    assert [each.kernel for each in view.kernels] == [
        "copy", "axpy", "axpy", "naive_product", "tiled_product", "reduction", "naive_transpose", "transpose",
        "padded_transpose"]
    shown = [" ".join(part.split()) for part in repr(view).split("\n\n")]
    assert "FP32 fused multiply-adds 16,777,216" in shown[1]
    assert "FP64 fused multiply-adds 16,777,216" in shown[2]
    assert "100 % of them are at line 41, `y[i] += a * x[i]`. Pass np.float32(a)" in shown[2]
    assert "float64" not in shown[1]
    far = shown[6]
    assert "18,874,368 sectors a launch (stores 32 sectors a request), where 4,194,304 would do." in far
    assert "100 % of the sectors too many are at line 115, `y[column, row] = x[row, column]`." in far
    assert "100 % of the wavefronts too many are at line 98" in shown[7]
    assert "wavefronts too many" not in shown[8]


def test_html_has_what_the_text_has_and_escapes_names(full):
    view = kernelscope.metrics(kernelscope.load(RECORDINGS / "counters.kscope"))
    html = view._repr_html_()
    assert html.count('class="ks-metrics"') == len(view.kernels) and html.count("<details open") == 0
    one = kernelscope.metrics(view.recording, kernel="transpose")._repr_html_()
    assert "<details open" in one and "bank conflicts" in one and "smsp__sass_sectors_mem_global.sum" in one
    hostile = MetricsView(full)
    hostile.kernels = [replace(kernelscope.metrics(full).kernels[0], kernel="<script>k", specialization_id=None)]
    assert "<script>" not in hostile._repr_html_() and "&lt;script&gt;k" in hostile._repr_html_()


def test_a_kernel_that_was_not_measured_is_said(full):
    with pytest.raises(UnknownKernelError, match="'nothing' was not measured"):
        kernelscope.metrics(full, kernel="nothing")


def test_why_nothing_was_measured_is_said():
    script = Script()
    script.cell()
    assert "%kernelscope metrics KERNEL measures one" in repr(kernelscope.metrics(script.recording()))
    script.health("metrics", "unavailable", message="only administrators may read", fix="ask one")
    said = " ".join(repr(kernelscope.metrics(script.recording())).split())
    assert said == "No kernel's counters were measured: only administrators may read; ask one."
    assert "only administrators may read" in kernelscope.metrics(script.recording())._repr_html_()
