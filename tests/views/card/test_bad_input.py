"""Recordings that no one wants: a card says what it can of them, in bounded time and size."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from handmade import MS, US, Script, many_launches

from kernelscope.analysis.outliers import outliers
from kernelscope.analysis.wall_time import wall_times
from kernelscope.recording.model import Recording
from kernelscope.views.card.html import card
from kernelscope.views.card.model import Overview
from kernelscope.views.card.text import summary
from kernelscope.views.page import page

_LONG = "é<&" * 33_000


def without_cells() -> Recording:
    made = Script(gpu={"source": "cupti"})
    made.launchable()
    for _ in range(30):
        made.activity(launch_id=made.launch())
    return made.recording()


def one_launch() -> Recording:
    made = Script()
    made.cell()
    made.launchable()
    made.launch()
    return made.recording()


def clock_went_back() -> Recording:
    """Everything that has two times or more, with some in the wrong order: cells, launches, phases, compiles, ..."""
    made = Script(gpu={"source": "cupti"})
    made.rows["threads"] = [{"thread_id": 0, "ident": 1, "name": "MainThread"}]
    made.device()
    made.cell(-50 * MS, synchronized_ns=made.now - 80 * MS)
    made.launchable()
    for at in range(60):
        launch = made.launch()
        row = made.rows["launches"][launch]
        made.activity(duration_ns=-500 if at % 3 == 0 else 20 * US)
        if at % 5 == 0:
            row["end_ns"] = row["start_ns"] - 4 * US
        if at % 7 == 0:
            row["submit_start_ns"] = row["start_ns"] - 100
        if at % 11 == 0:
            row["compile_ns"] = 900 * US
        if at % 4 == 0:
            made.range(start_ns=row["start_ns"], end_ns=row["start_ns"] - 999)
        made.now -= 30 * US if at % 2 else 0
    made.compilation(0, -3 * MS, launch_id=0, specialization_id=0)
    made.compilation(0, 3 * MS, launch_id=1, specialization_id=0)
    made.api_call(duration_ns=-7 * US)
    made.cell(10 * MS)
    made.health(total_cost_ns=60e6, cost_ns=1e6)
    for name, key in (("launches", "launch_id"), ("activities", "activity_id")):
        made.rows[name].sort(key=lambda row: row["start_ns"])
        for at, row in enumerate(made.rows[name]):
            row[key] = at
    return made.recording()


def many_kernels() -> Recording:
    return many_launches(2_000, 2_000)


def long_names() -> Recording:
    """100 kB in every name and message of 14 kernels, of which each is compiled, launched and in a range."""
    made = Script(gpu={"source": "cupti"})
    made.cell(name=_LONG, source=_LONG, error=_LONG, status="error")
    made.cell(name=_LONG)
    for at in range(14):
        made.launchable(f"{_LONG}{at}", module=_LONG, filename=_LONG)
        made.range(f"{_LONG}{at}", start_ns=made.now, end_ns=made.now + 99)
        made.compilation(at, MS, signature=_LONG, reason_code="first_use", reason=_LONG, fix=_LONG)
        made.launch(at, specialization=at, configuration=at)
        made.activity(name=f"other{_LONG}{at}")
    made.health(status="degraded", message=_LONG, fix=_LONG)
    return made.recording()


@pytest.mark.parametrize("make", [without_cells, one_launch, clock_went_back, many_kernels, long_names])
def test_every_view_says_what_it_can(make: Callable[[], Recording]) -> None:
    # Numbers that are not finite, and times that run backwards, would be NumPy's warnings: errors in these tests.
    recording = make()
    text, html = summary(recording), card(recording)
    shown = re.sub(r"<style>.*?</style>|<[^>]*>", " ", html, flags=re.DOTALL)
    for printed in (text, shown):
        assert not re.search(r"(?<![\w.])-\d[\d.,]* ?(?:%|ns|µs|ms|s)\b|\bnan\b|\binf\b", printed)
        assert all(float(each.replace(",", "")) <= 100 for each in re.findall(r"([\d.,]+) %", printed))
    assert len(html) < (4_000_000 if make is long_names else 400_000)
    assert len(text) < 100_000
    assert all(min(each.parts.values()) >= 0 and sum(each.parts.values()) == each.wall_ns
               for each in wall_times(recording))
    assert outliers(recording) is None
    assert "</html>" in page(recording)


def test_what_a_clock_that_went_back_leaves_unknown() -> None:
    shown = Overview(clock_went_back())
    backwards, forwards = shown.by_cell[:2]
    assert (backwards.wall_ns, backwards.synchronize_ns) == (None, None)
    assert forwards.wall_ns == shown.wall_ns == 10 * MS
    kernel, = shown.by_kernel
    assert kernel.totals.host_ns == 48 * 10 * US, "the launches that end after they begin"
    assert sum(value for _, value in kernel.totals.segments) == kernel.totals.host_ns
    assert kernel.compile_ns == 3 * MS
    assert [each.duration_ns for each in shown.compilations] == [3 * MS, 0]
    assert shown.cost is not None
    assert shown.cost.share is None
    assert "1 cell left out of the wall time" in summary(clock_went_back())


def test_of_many_kernels_only_those_are_made_that_are_shown() -> None:
    shown = Overview(many_kernels())
    assert (shown.kernels, len(shown.by_kernel), shown.launches) == (2_000, 2_000, 2_000)
    first, tenth = shown.by_kernel[0], shown.by_kernel[9:10]
    assert [each.dispatcher_id for each in tenth] == [shown.by_kernel.ids[9]]
    assert first.host_ns == shown.by_kernel.column("host_ns").max()
    assert shown.by_kernel.total("host_ns") == shown.totals.host_ns
    assert sum(each.host_ns or 0 for each in shown.by_kernel) == shown.totals.host_ns
    assert shown.by_kernel.by_id([first.dispatcher_id, 5_000, -1]) == {first.dispatcher_id: first}
