"""What is shown of the metrics of measured kernels."""

from __future__ import annotations

import pytest

import kernelscope
from kernelscope.errors import UnknownKernelError


def test_metrics_of_a_recording(full):
    view = kernelscope.metrics(full)
    frame = view.to_frame()
    assert frame.metric.tolist() == ["dram__bytes.sum"]
    assert "dram__bytes.sum" in str(view) and view.kernels[0].count >= 1


def test_a_kernel_that_was_not_measured_is_said(full):
    with pytest.raises(UnknownKernelError, match="'nothing' was not measured"):
        kernelscope.metrics(full, kernel="nothing")
