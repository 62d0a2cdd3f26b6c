"""The table of cells, finding one, and what is said of long files."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path

import pytest
from foreign_traces import launched, nsys_tables, write_json, write_sqlite
from handmade import Script

from kernelscope import Recorder, Recording
from kernelscope.clock import FakeClock
from kernelscope.commands import output
from kernelscope.commands.output import MANY_LAUNCHES, progress, report
from kernelscope.commands.show import find_cell
from kernelscope.errors import UnknownCellError
from kernelscope.probes.scripted import Compile, Launch, ScriptedProbe
from kernelscope.recording.merge import merge
from kernelscope.views.card.html import card
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


@pytest.mark.parametrize("width", [60, 120])
def test_the_table_has_all_of_a_cell_at_any_width(width: int) -> None:
    one = recorded("one", 1, Launch(start_ns=10, phases_ns=(1_000_000, 2_000_000, 3_000_000, 4_000_000)))
    two = recorded("\x1b[31mtwo", 2, Launch(error="ValueError", signature=None, phases_ns=(5,)))
    text = cells_text([one, two], width)
    assert all(len(line) <= width for line in text.splitlines())
    for words in ("In [1] one", "In [2] \\x1b[31mtwo", "dispatch 1.00 ms, prepare 2.00 ms", "10.0 ms", "100 ms",
                  "launches", "kernels", "compiled", "disk", "memory", "host", "wall", "status"):
        assert words in text, words
    assert "ok, 1 launch failed" in " ".join(text.split())


def test_a_row_leads_to_the_card_of_its_cell() -> None:
    one, two = recorded("one", 1), recorded("two", 2)
    html = cells_card([one, two])
    for number, recording in enumerate((one, two), 1):
        begun = recording.rows("cells")[0]["start_ns"]
        assert f'data-ks-at="card:{begun}" data-ks-command="%kernelscope report {number}"' in html
        assert f'data-ks-cell="{begun}"' in card(recording)


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


def test_long_traces_are_announced_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "events": write_json(tmp_path / "a.json", launched("axpy", 10, 5) * 10_000),
        "rows": write_sqlite(tmp_path / "a.sqlite", nsys_tables(launches=30)),
    }
    monkeypatch.setattr(output, "MANY_LAUNCHES", 25)
    for noun, path in files.items():
        told = io.StringIO()
        with redirect_stderr(told):
            output.loaded(str(path))
        assert re.fullmatch(rf"reading \S+a\.\w+: [\d,]+ {noun}\n", told.getvalue())


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
