"""The roofline in a notebook, as a Plotly figure; as text in a terminal; as a picture in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kernelscope.features.roofline.analyse import Roofline
from kernelscope.features.roofline.model import shown_of
from kernelscope.features.roofline.svg import roofline_svg
from kernelscope.features.roofline.text import roofline_text
from kernelscope.recording.model import Recording
from kernelscope.views.base import write_text

if TYPE_CHECKING:
    import plotly.graph_objects as go


class RooflineView:
    """The roofline of some recordings: see `roofline`.

    Parameters
    ----------
    recordings : sequence of Recording
        What holds the measurements.
    """

    def __init__(self, recordings: tuple[Recording, ...]) -> None:
        self._shown = shown_of(recordings)

    @property
    def rooflines(self) -> list[Roofline]:
        """Return the data: roofs and points, one `Roofline` a recording and device."""
        return self._shown.rooflines

    def figure(self) -> go.Figure:
        """Return a Plotly figure."""
        from kernelscope.features.roofline.figure import roofline_figure

        return roofline_figure(self._shown)

    def to_svg(self, path: str | Path | None = None) -> str:
        """Return a picture as an SVG document, and write it where a path is given.

        Parameters
        ----------
        path : str or Path, optional
            Where to; ``.svg`` is added to a name without a suffix. An existing file is replaced.

        Raises
        ------
        RecordingFileError
            It cannot be written, or would take the place of a recording.
        """
        drawn = roofline_svg(self._shown)
        if path is not None:
            write_text(path, ".svg", drawn)
        return drawn

    def _ipython_display_(self) -> None:
        from kernelscope.views.notebook_figure import notebook

        if notebook() is None:
            print(self)
        else:
            self.figure()._ipython_display_()

    def _repr_html_(self) -> str:
        from kernelscope.views.charts import figures_html

        return figures_html([self.figure()], self._shown.notice)

    def __repr__(self) -> str:
        return roofline_text(self._shown)

    def __str__(self) -> str:
        return repr(self)


def roofline(*recordings: Recording) -> RooflineView:
    """Return the roofline of the kernels whose counters were measured, several recordings side by side.

    A notebook shows it as a figure, a terminal as a table; ``figure()`` is a Plotly figure, ``to_svg()`` a picture,
    ``rooflines`` the data. Each specialization is a dot at its operations for each byte of DRAM and its operations a
    second, medians of the launches that were measured, below the roofs of the device.

    Parameters
    ----------
    *recordings : Recording
        What holds the measurements.

    Raises
    ------
    ValueError
        No recording was given.
    """
    if not recordings:
        raise ValueError("roofline needs a recording: kernelscope.roofline(recording), or several side by side")
    return RooflineView(recordings)


def of_recording(recording: Recording) -> RooflineView:
    """Return the roofline of the kernels whose counters were measured: a figure in notebooks, a table as text.

    See `kernelscope.roofline`, which also shows several recordings side by side.
    """
    return RooflineView((recording,))


def charts(recording: Recording) -> list[go.Figure]:
    """Return the roofline as a figure; none where no kernel's counters were measured."""
    return [RooflineView((recording,)).figure()] if recording.arrow("measurements").num_rows else []
