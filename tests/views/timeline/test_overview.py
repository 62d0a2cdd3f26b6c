"""A large timeline in small: shares of columns, in the colors of what takes them."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from handmade import MS, Script, many_launches

from kernelscope.palette import KERNEL_COLORS, PHASE_COLORS
from kernelscope.recording.model import Recording
from kernelscope.views.timeline import overview
from kernelscope.views.timeline.build import timeline_of
from kernelscope.views.timeline.wire import pack


def sent(recording: Recording) -> dict[str, dict[str, np.ndarray]] | None:
    timeline = timeline_of(recording)
    found = overview.with_overview(pack(timeline), timeline).header.get("overview")
    return found and {track: {color: np.frombuffer(base64.b64decode(text), np.uint8) for color, text in colors}
                      for track, colors in found.items()}


def test_shares_are_those_of_the_phases() -> None:
    recording = many_launches(100_000, 5)
    found = sent(recording)
    assert found is not None
    launches = recording.launches
    spent = (launches.submit_end_ns - launches.submit_start_ns).sum() / (100_000 * 40_000)
    shares = [colors[PHASE_COLORS["submit"]] for colors in found.values() if PHASE_COLORS["submit"] in colors]
    assert len(shares) == 1 and len(shares[0]) == overview.COLUMNS
    assert shares[0].mean() / 255 == pytest.approx(spent, rel=0.03)


def test_a_column_has_the_color_of_its_longest_event_and_little_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "LEAST_EVENTS", 0)
    script = Script()
    script.cell(wall_ns=1_024 * MS)
    script.device()
    for at, (name, lasts) in enumerate((("one", MS // 2), ("two", MS // 4), ("one", 3 * MS), ("two", 10))):
        script.activity(name=name, start_ns=script.now + at * 100 * MS, duration_ns=lasts)
    script.activity(name="two", start_ns=script.now + 600_000, duration_ns=MS // 10)
    found = sent(script.recording())
    assert found is not None
    gpu = next(colors for colors in found.values() if KERNEL_COLORS[0] in colors)
    one, two = gpu[KERNEL_COLORS[0]], gpu[KERNEL_COLORS[1]]
    assert (one[0], two[0]) == (round(0.6 * 255), 0)  # both, of which the first lasts longer
    assert two[100] == round(0.25 * 255) and one[200:203].tolist() == [255] * 3 and two[300] == 1
    assert int(one.sum()) + int(two.sum()) == round(0.6 * 255) + round(0.25 * 255) + 3 * 255 + 1


def test_there_is_none_where_it_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    for number in range(2):
        script.cell(execution_count=number + 1, wall_ns=MS)
        script.now += 90 * MS
    assert sent(script.recording()) is None  # few events
    monkeypatch.setattr(overview, "LEAST_EVENTS", 0)
    assert sent(script.recording()) is None  # idle time that is drawn short
    monkeypatch.setattr(overview, "MOST_BYTES", 10)
    assert sent(many_launches(10, 1)) is None
