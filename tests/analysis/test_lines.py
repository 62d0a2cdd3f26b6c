"""What lines cost: sums over made-up recordings, against sums row by row."""

from __future__ import annotations

import random
from typing import Any

import pytest
from handmade import Script

from kernelscope.analysis.lines import annotated, by_line
from kernelscope.recording.model import Recording
from kernelscope.views.lines import NO_LINE, lines_card, lines_text


def story(seed: int, gpu: bool = True) -> Recording:
    """Launches, compiles and activities of four lines and of none."""
    chance = random.Random(seed)
    script = Script(**({"gpu": {"source": "cupti"}} if gpu else {}))
    script.cell(source="a = 1\nk[1, 32](a)\nwait()\n", execution_count=3)
    for name in ("axpy", "scale"):
        script.launchable(name)
    for line in (1, 2, 3):
        script._add("lines", "line_id", {"file": "In[3]", "cell_id": 0, "line": line})
    script._add("lines", "line_id", {"file": "/home/u/model.py", "line": 40, "function": "Model.step"})
    for _ in range(40):
        line = chance.choice([None, 1, 1, 3])
        launch = script.launch(chance.randint(0, 1), line_id=line)
        if chance.random() < 0.3:
            script.compilation(duration_ns=chance.randint(1, 9) * 1_000_000, line_id=line)
        if gpu:
            kind = chance.choice(["kernel", "memcpy", "memset", "sync"])
            inside = [row["start_ns"] + 100 for row in script.rows["launches"]]
            submitted = chance.choice([None, *inside, 3 + (line or 0), 13 + (line or 0)])
            script.activity(kind, duration_ns=chance.randint(1, 99) * 1_000, size_bytes=100, submit_start_ns=submitted,
                            submit_end_ns=None if submitted is None else submitted + 700, thread_id=0,
                            launch_id=launch if kind == "kernel" else None,
                            line_id=chance.choice([2, line]) if kind == "sync" else line)
    return script.recording()


def calls(made: list[dict[str, Any]], launches: list[dict[str, Any]]) -> int | None:
    """How long the calls took that made some activities, but waits and what launches did."""
    others = [row for row in made if row["kind"] != "sync" and row["launch_id"] is None]
    known = {(row["thread_id"], row["submit_start_ns"]): row["submit_end_ns"] - row["submit_start_ns"]
             for row in others if row["submit_start_ns"] is not None}
    alone = [took for (thread, start), took in known.items()
             if not any(row["thread_id"] == thread and row["start_ns"] <= start <= row["end_ns"] for row in launches)]
    return None if not alone and any(row["submit_start_ns"] is None for row in others) else sum(alone)


def slowly(recording: Recording, line: int | None) -> dict[str, Any]:
    def rows(table: str) -> list[dict[str, Any]]:
        return [row for row in recording.rows(table) if row["line_id"] == line]

    def lasted(held: list[dict[str, Any]]) -> int:
        return sum(row["end_ns"] - row["start_ns"] for row in held)

    waits = [row for row in rows("activities") if row["kind"] == "sync"]
    lost = any(row["kind"] == "sync" and row["line_id"] is None for row in recording.rows("activities"))
    return {
        "launches": len(rows("launches")), "host_ns": lasted(rows("launches")) or None,
        "compiles": len(rows("compilations")), "compile_ns": lasted(rows("compilations")),
        "gpu_ns": lasted([row for row in rows("activities") if row["kind"] != "sync"]),
        "copied_bytes": 100 * sum(row["kind"] == "memcpy" for row in rows("activities")),
        "wait_ns": lasted(waits) if waits or not lost else None,
        "call_ns": calls(rows("activities"), recording.rows("launches")),
        "kernels": {recording.rows("dispatchers")[row["dispatcher_id"]]["name"] for row in rows("launches")},
    }


@pytest.mark.parametrize("seed", range(20))
def test_as_row_by_row(seed: int) -> None:
    recording = story(seed)
    found = by_line(recording)
    assert {1, 3, None} <= {each.line_id for each in found} <= {1, 2, 3, None}
    for each in found:
        expected = slowly(recording, each.line_id)
        assert {name: getattr(each, name) for name in expected if name != "kernels"} | {
            "kernels": set(each.kernels)} == expected
    assert found[-1].line_id is None
    costs = [each.cost_ns for each in found[:-1]]
    assert costs == sorted(costs, reverse=True)


def test_without_the_gpu_its_figures_are_unknown() -> None:
    assert {(each.gpu_ns, each.wait_ns, each.copied_bytes) for each in by_line(story(1, gpu=False))} == {(None,) * 3}


def test_the_table_names_what_a_line_is() -> None:
    table = story(3).by_line()
    assert table.index.name == "line_id"
    assert table.loc[1, ["file", "line", "text"]].tolist() == ["In[3]", 2, "k[1, 32](a)"]
    assert table.loc[3, ["line", "function"]].tolist() == [40, "Model.step"]
    assert table.kernels.dropna().str.split(", ").explode().isin(["axpy", "scale", ""]).all()


def test_what_is_shown_has_every_line_and_no_path() -> None:
    text = lines_text(story(3))
    assert [line.split()[0] for line in text.splitlines()[1:]] == [*(
        f"{each.file.rpartition('/')[2]}:{each.line}" for each in by_line(story(3))[:-1]), "no"]
    assert text.splitlines()[-1].startswith(NO_LINE) and "/home/u" not in text
    card = lines_card(story(3))
    assert "In[3]:2" in card and "k[1, 32](a)" in card and "/home/u" not in card


def test_nothing_known_is_said() -> None:
    script = Script()
    script.cell()
    script.launchable()
    script.launch()
    assert by_line(script.recording()) == []
    assert "no line of code is known" in lines_text(script.recording())
    assert "no line of code is known" in lines_card(script.recording())


def code_story(source: str | None, lines: list[tuple[str, int | None, int, str | None, str | None]]) -> Recording:
    """A cell of which each line launches once more than the one before."""
    script = Script(gpu={"source": "cupti"})
    script.cell(source=source, execution_count=3)
    script.launchable()
    for file, cell, line, function, text in lines:
        number = script._add("lines", "line_id", {"file": file, "cell_id": cell, "line": line, "function": function,
                                                  "text": text})
        for _ in range(number + 1):
            script.activity(duration_ns=1_000, launch_id=script.launch(line_id=number), line_id=number)
    script.launch()
    return script.recording()


def test_annotated_code_has_cells_whole_and_functions_by_their_lines() -> None:
    recording = code_story("a = 1\r\nk[1, 32](a); f()\n\x0c# no line ends there\nk[1, 32](a)\n\n", [
        ("In[3]", 0, 2, None, None), ("In[3]", 0, 2, "f", None), ("In[3]", 0, 4, None, None),
        ("/home/u/sim.py", None, 40, "step", "        k[1, 32](a)"), ("In[1]", None, 3, "g", "    k(a)"),
        ("/home/u/sim.py", None, 30, "step", "    for a in b:"), ("/home/u/sim.py", None, 50, None, None),
        ("In[3]", 0, 99, None, "a cell that was changed"),
    ])
    code = annotated(recording)
    assert code is not None
    cell, *others = code.sources
    assert (cell.file, cell.is_cell) == ("In[3]", True)
    assert [line.text for line in cell.lines] == [
        "a = 1", "k[1, 32](a); f()", "\x0c# no line ends there", "k[1, 32](a)"]
    assert [(line.line_ids, line.done and line.done.launches) for line in cell.lines] == [
        ((), None), ((0, 1), 3), ((), None), ((2,), 3)]
    assert [(each.file, each.function, [(line.number, line.text) for line in each.lines]) for each in others] == [
        ("/home/u/sim.py", "step", [(30, "for a in b:"), (40, "    k[1, 32](a)")]),
        ("In[3]", None, [(99, "a cell that was changed")]),
        ("/home/u/sim.py", None, [(50, None)]), ("In[1]", "g", [(3, "k(a)")]),
    ]
    assert (code.total.launches, code.unknown and code.unknown.launches, len(code.lines)) == (37, 1, 7)
    assert code.longest == (others[1], others[1].lines[0])  # of the lines, not of the functions


@pytest.mark.parametrize("seed", range(5))
def test_the_total_is_that_of_everything(seed: int) -> None:
    recording = story(seed)
    code, rows = annotated(recording), by_line(recording)
    assert code is not None
    everything = [line.done for line in code.lines if line.done] + [code.unknown]
    for name in ("launches", "compiles", "compile_ns", "gpu_ns", "wait_ns", "copied_bytes", "host_ns", "cost_ns"):
        total = sum(getattr(each, name) or 0 for each in rows)
        assert getattr(code.total, name) == total == sum(getattr(each, name) or 0 for each in everything if each)
