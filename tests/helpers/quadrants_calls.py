"""Kernels of Quadrants' stand-in, and recordings of their calls."""

from __future__ import annotations

from typing import Any

import pytest
import toy_quadrants
from toy_quadrants import Annotation, Array, NdarrayType

from kernelscope.probes.quadrants import QuadrantsProbe
from kernelscope.recorder.recorder import Recorder
from kernelscope.recording.model import Recording

F32, F64 = Array("f32"), Array("f64")


def body(x: Any, a: float) -> None:
    """A kernel's function."""


def on_cuda(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    package = toy_quadrants.make(arch="cuda", **options)
    toy_quadrants.install(package, monkeypatch)
    return package


def record(*calls: Any, **options: Any) -> Recording:
    recorder = Recorder("toy", probes=[QuadrantsProbe()], **options).start()
    recorder.begin_cell("calls", execution_count=1)
    for call in calls:
        call()
    recorder.end_cell()
    return recorder.stop()


def array_kernel(qd: Any, **options: Any) -> Any:
    return qd.Kernel(body, arguments=(("x", NdarrayType()), ("a", Annotation("f32"))), **options)
