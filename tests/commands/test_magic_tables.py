"""The table of cells, finding one, and what is said of long files."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from dataclasses import replace

import pytest
from handmade import Script

from kernelscope import Recorder, Recording
from kernelscope.clock import FakeClock
from kernelscope.commands.output import MANY_LAUNCHES, progress, report
from kernelscope.commands.show import find_cell
from kernelscope.errors import UnknownCellError
from kernelscope.probes.scripted import Compile, Launch, ScriptedProbe
from kernelscope.recording.merge import merge
from kernelscope.views.cells import cells_card, cells_text


def recorded(name: str, number: int, *events: Launch | Compile) -> Recording:
    probe, clock = ScriptedProbe(), FakeClock(start_ns=1_000_000_000 * number)
    recorder = Recorder(name, probes=[probe], clock=clock).start()
    recorder.begin_cell(name, execution_count=number)
    for event in events:
        probe.emit(replace(event, start_ns=clock.time_ns + event.start_ns))
    clock.advance(100_000_000)
    recorder.end_cell()
    return recorder.stop()


def test_the_table_has_a_line_a_cell() -> None:
    one = recorded("one", 1, Launch(start_ns=10, phases_ns=(1_000_000, 2_000_000, 3_000_000, 4_000_000)))
    two = recorded("\x1b[31mtwo", 2, Launch(error="ValueError", signature=None, phases_ns=(5,)))
    head, first, second = [line for line in cells_text([one, two]).splitlines() if not line.startswith("***")]
    assert head.split("  ")[0] == "cell"
    assert "2.000" in first and "3.000" in first and "10.000" in first
    assert r"\x1b[31mtwo" in second
    assert "–" in second  # noqa: RUF001 - phases that were not recorded
    assert second.split()[-2:] == ["1", "ok"]
    html = cells_card([one, two])
    assert html.count("<tr>") == 3
    assert r"\x1b[31mtwo" in html
    assert "10.000" in html


def test_cells_are_found_by_number_and_name() -> None:
    one, two, again = recorded("one", 1), recorded("two", 2), recorded("one", 3)
    assert find_cell([one, two, again]) is again
    assert find_cell([one, two, again], "one") is again
    assert find_cell([one, two, again], "1") is one
    assert find_cell([merge([one, two])], "two").cells.name.tolist() == ["two"]
    with pytest.raises(UnknownCellError, match=r"no recorded cell '9'; known: 1 \('one'\), 2 \('two'\)"):
        find_cell([one, two], "9")
    with pytest.raises(UnknownCellError, match="no recorded cell ''; known: "):
        find_cell([one], "")
    with pytest.raises(UnknownCellError, match="nothing was recorded yet"):
        find_cell([])


def test_only_long_files_are_announced() -> None:
    told = io.StringIO()
    with redirect_stderr(told):
        tell = progress(None, "reading a.kscope")
        tell(0.0, "reading 3 rows of cells")
        tell(0.1, f"reading {MANY_LAUNCHES - 1} rows of launches")
        assert told.getvalue() == ""
        tell(0.2, f"reading {MANY_LAUNCHES} rows of launches")
        tell(1.0, "read a.kscope")
    assert told.getvalue() == f"reading a.kscope: {MANY_LAUNCHES:,} launches\n"


@pytest.mark.parametrize(("problem", "line"), [
    (ValueError("two\nlines"), "kernelscope: ValueError: two lines"),
    (UnknownCellError("ours"), "kernelscope: ours"),
    (RuntimeError(), "kernelscope: RuntimeError"),
    (KeyboardInterrupt(), "kernelscope: interrupted while the recording was started or finished"),
    ("text", "kernelscope: text"),
])
def test_problems_are_one_line(problem: BaseException | str, line: str) -> None:
    told = io.StringIO()
    with redirect_stderr(told):
        report(problem)
    assert told.getvalue() == line + "\n"


def test_a_status_is_escaped():
    script = Script()
    script.cell(execution_count=1, status="\x1b[31m")
    text = cells_text([script.recording()])
    assert "\x1b" not in text and "\\x1b[31m" in text
