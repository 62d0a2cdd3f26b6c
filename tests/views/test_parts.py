"""What parts of time are called: by one name wherever they are shown, and they add up to what they are parts of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from everything import everything
from handmade import MS, US, Script

import kernelscope
from kernelscope.analysis.gpu import STATES, gaps
from kernelscope.analysis.launches import PHASES, launch_phases
from kernelscope.analysis.wall_time import PARTS, total, wall_times
from kernelscope.palette import GPU_COLORS, PART_COLORS, PHASE_COLORS
from kernelscope.recording.model import Recording
from kernelscope.views.card import labels
from kernelscope.views.card.answer import recording_answer
from kernelscope.views.card.blocks import Card
from kernelscope.views.card.model import Overview
from kernelscope.views.card.sections import card_of
from kernelscope.views.card.verdict import GROUPS, groups
from kernelscope.views.parts import GPU_LABELS, PART_LABELS, PHASE_LABELS, doing
from kernelscope.views.timeline.build import timeline_of

DOCS = Path(__file__).parents[2] / "docs" / "guides"
RECORDINGS = sorted((Path(__file__).parents[2] / "notebooks" / "recordings").glob("*.kscope"))


def measured() -> Recording:
    """A launch that is replayed for the GPU's counters, between two that are not."""
    made = Script()
    made.rows["threads"] = [{"thread_id": 0, "ident": 1, "name": "MainThread"}]
    made.device()
    made.cell(wall_ns=40 * MS)
    made.launchable()
    for replay in (0, 20 * MS, 0):
        launch = made.launch(0, (10 * US, 0, 10 * US, 50 * US + replay, 5 * US), device_id=0)
        row = made.rows["launches"][launch]
        if replay:
            made.measurement(0, {}, launch_id=launch, start_ns=row["submit_start_ns"] + 5 * US,
                             end_ns=row["submit_start_ns"] + 5 * US + replay)
        made.activity("kernel", "axpy", 20 * US, start_ns=row["end_ns"], launch_id=launch, specialization_id=0)
        made.now += 100 * US
    return made.recording()


def recordings() -> list[Any]:
    return [*[pytest.param(path, id=path.stem) for path in RECORDINGS], pytest.param(None, id="everything"),
            pytest.param("measured", id="measured")]


@pytest.fixture(params=recordings())
def recording(request: pytest.FixtureRequest) -> Recording:
    if request.param is None:
        return everything()
    return measured() if request.param == "measured" else kernelscope.load(request.param)


def test_the_parts_of_each_whole_add_up_to_it(recording: Recording) -> None:
    times = wall_times(recording)
    for each in times:
        assert set(each.parts) == set(PARTS) and min(each.parts.values()) >= 0
        assert sum(each.parts.values()) == each.wall_ns == sum(spent for _, spent in groups(each))
    phases = launch_phases(recording)
    known = phases.host_ns >= 0
    for name in PHASES:
        assert (phases.phases[name][known] <= phases.host_ns[known]).all()
    whole = phases.total()
    assert sum(spent for _, spent in whole.segments) == (whole.host_ns or 0)
    for lane in gaps(recording):
        assert sum(lane.by_state.values()) == lane.idle_ns
    shown = Overview(recording)
    for busy in () if shown.gpu is None else shown.gpu.busy:
        assert sum(spent for _, spent in labels.gpu_parts(busy)) == busy.window_ns
    for share in card_of(recording).shares:
        for bar in share.bars:
            assert sum(part.duration_ns for part in bar.parts) == bar.whole_ns


def headline(card: Card) -> list[str]:
    """Return what a card's first sentence says of each part."""
    first = next((line for line in card.verdict if " %" in line.partition(": ")[2]), "")
    found = re.split(r"(?:^|, )(?:< )?[\d.]+ % ", first.partition(": ")[2].rstrip("."))
    return [text for text in found if text]


def test_every_label_is_that_of_the_one_table(recording: Recording) -> None:
    card, is_imported = card_of(recording), recording.is_imported
    names = {*PART_LABELS.values(), *(["outside launches"] if is_imported else [])}
    time = total(wall_times(recording))
    if time is not None and time.wall_ns:
        said = headline(card)
        assert said and [text for text in said if not text.startswith(tuple(names))] == []
    for share in card.shares:
        allowed = names if share.label == "Host" else names | set(GPU_LABELS.values())
        for bar in share.bars:
            assert {part.label for part in bar.parts} <= allowed
        assert {label for _, label, *_ in share.legend} <= allowed
    told = recording_answer(recording)
    for part in (told.get("time") or {}).get("parts", ()):
        assert part["what"] == PART_LABELS[part["part"]]
    assert {segment.name for segment in timeline_of(recording).segments()} <= {*PHASE_LABELS, "other"}
    phases = next((each for each in card.sections if each.key == "phases"), None)
    for block in () if phases is None else phases.blocks:
        for column in getattr(block, "terminal", ()):
            assert column.label in PHASE_LABELS.values()


def test_every_part_has_a_name_a_meaning_and_a_color() -> None:
    colors = PHASE_COLORS | PART_COLORS | GPU_COLORS
    for name in GROUPS:
        assert name in labels.TIME_MEANINGS and name in PART_LABELS and name in colors
    for name in (*PHASES, "unsplit"):
        assert name in labels.PHASE_MEANINGS and name in PHASE_LABELS and (name in colors or name == "unsplit")
    for name in GPU_LABELS:
        assert name in labels.PART_MEANINGS
    assert set(STATES) <= set(PART_LABELS)


def test_the_guide_has_every_part() -> None:
    text = (DOCS / "card.md").read_text(encoding="utf-8")
    table = text[text.index("| part |"):text.index("A garbage collection inside")]
    assert [label for name, label in PART_LABELS.items() if name in GROUPS and label not in table] == []
    table = text[text.index("| phase |"):text.index("Compile time is not part of dispatch")]
    assert [label for label in PHASE_LABELS.values() if f"| {label}" not in table] == []


def test_a_replay_is_measuring_everywhere() -> None:
    recording = measured()
    assert wall_times(recording)[0].parts["measuring"] == 20 * MS
    whole = launch_phases(recording).total()
    assert (whole.measuring_ns, whole.submit_ns, whole.launching_ns) == (20 * MS, 150 * US, 3 * 75 * US)
    shown = Overview(recording)
    assert shown.gpu is not None
    busy, = shown.gpu.busy
    idle, = shown.gpu.idle
    assert busy.measuring_ns == 20 * MS and idle.idle_ns + busy.measuring_ns + busy.busy_ns == busy.window_ns
    assert shown.by_kernel[0].max_ns == 75 * US and shown.outliers is None
    assert doing("measuring") == "measuring"
    card = card_of(recording)
    assert "50 % measuring with the GPU's counters" in card.verdict[0]
    host, gpu = card.shares
    assert {part.label for bar in (host.bars[0], gpu.bars[0]) for part in bar.parts} >= {"measuring"}
    assert "measuring" not in {part.label for part in gpu.bars[1].parts}, "that is no idle time"
    spent = {each.name: int((each.end - each.start)[each.start >= 0].sum())
             for each in timeline_of(recording).segments()}
    assert (spent["measuring"], spent["submit"]) == (20 * MS, 150 * US)
