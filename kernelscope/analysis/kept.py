"""How many launches the recorder kept and lost, as the recording's metadata say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from kernelscope.recording.model import Recording


@dataclass(frozen=True)
class Kept:
    """What the recorder kept.

    Attributes
    ----------
    backend : str or None
        Which recorder it was: ``native`` or ``python``; None where recordings of both were merged.
    mode : str or None
        ``grow``, ``ring`` or ``stop``; None where recordings of several modes were merged.
    launches, lost : int
        Launches that are in the recording, and that are not.
    """

    backend: str | None
    mode: str | None
    launches: int
    lost: int


def kept(recording: Recording) -> Kept | None:
    """Return how many launches were kept; None where that is not known, or nothing was launched.

    It is not known of recordings of older versions, and of one cell of a longer recording.
    """
    held = recording.metadata.get("recorder")
    found = cast("dict[str, Any]", held) if isinstance(held, dict) else {}
    launches, lost = found.get("kept"), found.get("lost")
    if type(launches) is not int or type(lost) is not int or lost < 0 or launches + lost == 0:
        return None
    if launches != recording.arrow("launches").num_rows:
        return None
    backend, mode = found.get("backend"), found.get("mode")
    return Kept(backend if backend in ("native", "python") else None,
                mode if mode in ("grow", "ring", "stop") else None, launches, lost)
