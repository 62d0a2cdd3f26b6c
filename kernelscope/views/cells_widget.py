"""The table of cells in a notebook, whose rows lead to the cells' cards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets

from kernelscope.recording.model import Recording
from kernelscope.views.cells import cells_card, cells_text
from kernelscope.views.widget import View, front_end


class CellsWidget(View):
    """The table of cells in a notebook: its HTML, which a script of the page sorts and links to the cells' cards.

    Parameters
    ----------
    recordings : sequence of Recording
        What was recorded.
    """

    bundle = "cells"
    _esm = front_end("widget")
    what = traitlets.Unicode("the table of cells").tag(sync=True)

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self._static = cells_text(recordings), cells_card(recordings)
        super().__init__()

    def data(self) -> tuple[dict[str, Any], bytes]:
        """Return nothing: what is shown is the static version."""
        return {"header": {}}, b""

    def static_version(self) -> tuple[str, str]:
        """Return the table as text and as HTML."""
        return self._static
