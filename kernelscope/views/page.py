"""The self-contained page: a recording's card, timeline and inspector in one HTML file that needs no server."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path

from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.views.base import Progress, escape, write_text
from kernelscope.views.card.html import card
from kernelscope.views.card.sections import card_of
from kernelscope.views.html import FRAMED, document
from kernelscope.views.inspector.html import static_html
from kernelscope.views.inspector.model import inspect_kernels
from kernelscope.views.live import header_of, page_of
from kernelscope.views.timeline.build import timeline_of
from kernelscope.views.timeline.overview import with_overview
from kernelscope.views.timeline.svg import picture
from kernelscope.views.timeline.wire import pack
from kernelscope.views.widget import front_end

_WIDE = "main { max-width: 1600px; } main .kscope { max-width: none; }"
_NO_SCRIPT = "A picture of the timeline: the live one needs JavaScript, and a browser of 2023 or later."


def write_page(
    recording: Recording, path: str | Path, *, paths: bool = False, progress: Progress | None = None
) -> Path:
    """Write the card, the timeline and the inspector as one HTML file, and return its path.

    Parameters
    ----------
    recording : Recording
        What to show.
    path : str or Path
        Where to; ``.html`` is added to a name without a suffix. An existing file is replaced once the new one is whole.
    paths : bool
        Keep full paths of this machine.
    progress : callable, optional
        Called with 1 and a text when the file is there.

    Raises
    ------
    RecordingFileError
        It cannot be written, or would take the place of a recording.
    """
    target = write_text(path, ".html", page(recording, paths=paths))
    if progress:
        progress(1.0, f"wrote {target.name}")
    return target


def page(recording: Recording, *, paths: bool = False) -> str:
    """Return card, timeline and inspector as one HTML document; only with `paths` it has paths of this machine.

    It fetches nothing, and runs no script but its own.
    """
    recording = shareable(recording, paths=paths)
    # The kernels with their specializations, as the card's links show them; nothing where there are none.
    kernels = inspect_kernels(recording)
    return _document(recording, card(recording, paths=paths), static_html(recording, kernels) if kernels else "", _WIDE)


def timeline_page(recording: Recording, *, paths: bool = False) -> str:
    """Return the timeline alone as such a document, which fills the window: for a frame in another page."""
    return _document(shareable(recording, paths=paths), "", "", FRAMED)


def card_page(recording: Recording, *, paths: bool = False) -> str:
    """Return the card alone as such a document, for a frame in another page."""
    title = card_of(recording, paths=paths).title
    return document(f"{title} · KernelScope", f"<main>{card(recording, paths=paths)}</main>", FRAMED,
                    front_end("cards_page"), images="data:")


def _document(recording: Recording, above: str, below: str, style: str) -> str:
    """Return a document with a live timeline between what is above and below it; alone if there is nothing."""
    timeline = timeline_of(recording)
    packed = with_overview(pack(timeline), timeline)
    drawings = header_of(recording)
    alone = "" if above or below else " data-alone"
    # The static SVG for pages without scripts; its escaped names cannot end the element.
    drawn = picture(timeline)
    without_scripts = f'<noscript><div style="overflow-x: auto">{drawn}</div><p>{escape(_NO_SCRIPT)}</p></noscript>'
    body = (f'<main>{above}\n<div id="kernelscope-timeline"{alone}>{without_scripts}</div>\n'
            f"{below}</main>\n{_header(packed.header | drawings)}")
    script = front_end(page_of(recording, drawings))
    payload = base64.b64encode(packed.payload).decode("ascii")
    return document(f"{packed.header['title']} · KernelScope", body, style, script, images="data:" if drawings else "",
                    data=f'<script type="application/octet-stream" id="kernelscope-payload">{payload}</script>\n')


def _header(fields: Mapping[str, object]) -> str:
    header = json.dumps(fields, separators=(",", ":"))
    # No text of the recording may end the element or open a comment in it.
    for char in "<>&":
        header = header.replace(char, f"\\u{ord(char):04x}")
    return f'<script type="application/json" id="kernelscope-header">{header}</script>\n'
