"""``%kernelscope whatif graph [CELL]``: runs a recorded cell again, and shows its launches against a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from kernelscope.commands.show import find_cell
from kernelscope.errors import KernelScopeError
from kernelscope.suggestions import did_you_mean

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording


USAGE = "%kernelscope whatif graph [CELL]"


def run_whatif(shell: Any, recordings: Sequence[Recording], asked: str | None) -> None:
    """Run the cell again and show the result as an output of the running cell.

    Parameters
    ----------
    shell : InteractiveShell
        Where the cell runs, and is shown.
    recordings : sequence of Recording
        Those of this session, in order.
    asked : str or None
        What follows ``whatif``: ``graph``, and the cell's execution count or name; the newest cell without.

    Raises
    ------
    UsageError
        The line is wrong, or the cell cannot be a graph; one line says why. What the cell's own code raises passes.
    """
    kind, _, cell = (asked or "").strip().partition(" ")
    if kind != "graph":
        wrong = f"no what-if of {kind!r}{did_you_mean(kind, ['graph'])}" if kind else "what to try is missing"
        raise UsageError(f"{wrong}{' U' if wrong.endswith('?') else '; u'}sage: {USAGE}")
    result = _found(recordings, cell.strip().strip("'\"") or None)
    data = {"text/plain": str(result)}
    if "text/html" in getattr(shell.display_formatter, "active_types", ()):
        data["text/html"] = result._repr_html_()
    shell.display_pub.publish(data=data, metadata={"kernelscope": {"whatif": True}})


def _found(recordings: Sequence[Recording], cell: str | None) -> Any:
    try:
        from kernelscope.graphs import from_recording

        return from_recording(find_cell(recordings, cell))
    except KernelScopeError as error:
        raise UsageError(" ".join(str(error).split())) from None
