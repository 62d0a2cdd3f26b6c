"""The tool ``metrics`` of ``kernelscope mcp``."""

from __future__ import annotations

from kernelscope.commands.mcp import Answered, Folder, text_argument
from kernelscope.features.metrics.view import MetricsView
from kernelscope.progress import Progress


def metrics(folder: Folder, progress: Progress | None, recording: str, kernel: str | None = None,
            limit: int | None = None) -> Answered:
    """List what the GPU's counters said of measured kernels, or of one, with units."""
    return folder.answer(
        lambda: MetricsView(folder.load(recording, progress), text_argument("kernel", kernel)), limit)
