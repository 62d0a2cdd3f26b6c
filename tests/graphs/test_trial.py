"""Steps that are captured, and what is said where they cannot be."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from kernelscope.errors import GraphError
from kernelscope.graphs.comparison import Captured
from kernelscope.graphs.watching import Step


class Waits(Step):
    """A step that no capture survives."""

    def onto(self, stream: Any) -> Any:
        return stream.sync, ()


def test_a_capture_that_becomes_invalid_says_why(cuda, step, array) -> None:
    first = Step("step", "line 1", step[1, 1], (array,), 0, (("a", array),), step)
    wrong = Waits("wait", "line 2", step[1, 1], (array,), 0, (), step)
    with pytest.raises(GraphError, match="wait at line 2 cannot be captured: CUDA_ERROR_STREAM_CAPTURE"):
        Captured([first, wrong])
    gc.collect()  # the builder, which the error has kept
    Captured([first]).close()
