"""``--json``: every answer about every recording is as the schema says, short, and says what the card says."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from checked_answers import checked
from handmade import Script

from kernelscope.commands.cli import parser_of
from kernelscope.commands.doctor import doctor_answer
from kernelscope.commands.mcp import Folder
from kernelscope.features.metrics.analyse import measured
from kernelscope.recording.file import load
from kernelscope.views.answer import MOST_LETTERS, Answer, Many, answer, encoded
from kernelscope.views.card.answer import recording_answer
from kernelscope.views.inspector.answer import kernels_answer
from kernelscope.views.inspector.model import inspect_kernels

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "notebooks" / "recordings"
RECORDINGS = sorted(HERE.glob("*.kscope"))
STUDIES = [HERE / f"{name}.json" for name in ("anatomy", "launch_cases", "launch_overhead", "recording_overhead")]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording(cli: Any, path: Path) -> None:
    found = checked(cli("show", str(path), "--json").stdout)
    assert found["verdict"] in " ".join(load(path).summary().split())
    assert list(found)[:5] == ["schema", "version", "kind", "note", "verdict"]
    assert found["health"]["complete"] is True and found["health"]["lines"][0].startswith("Recording's own cost")
    every = checked(cli("show", str(path), "--json", "--limit", "0").stdout, is_whole=True)
    assert every["left_out"] == every["shortened"] == {}
    for name, rows in found.items():
        if isinstance(rows, list):
            assert len(rows) + found["left_out"].get(name, 0) == len(every[name])
    for verb in ("inspect", "metrics", "roofline"):
        checked(cli(verb, str(path), "--json").stdout)
        checked(cli(verb, str(path), "--json", "--limit", "0").stdout, is_whole=True)
    graphs = len(load(path).rows("graphs"))
    for graph in range(graphs):
        assert len(checked(cli("graph", str(path), str(graph), "--json").stdout)["nodes"]) <= 12
    if graphs != 1:
        refused = checked(cli("graph", str(path), "--json", code=1).stdout)
        assert refused["error"]["kind"] == "UnknownGraphError"


def test_a_folder_whose_recording_is_removed_while_it_is_listed(tmp_path: Path) -> None:
    for name in ("first", "second"):
        shutil.copy(HERE / "quickstart.kscope", tmp_path / f"{name}.kscope")

    def removing(fraction: float, text: str) -> None:
        if text == "2 files looked at":
            (tmp_path / "first.kscope").unlink()

    text, is_error = Folder(tmp_path).list_recordings(progress=removing)
    sizes = {row["recording"]: row["size_bytes"] for row in checked(text)["recordings"]}
    assert not is_error and sizes["first.kscope"] is None and sizes["second.kscope"] > 0


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study(cli: Any, path: Path) -> None:
    found = checked(cli("study", "show", str(path), "--json").stdout)
    assert found["kind"] == ("anatomy" if path.stem == "anatomy" else "study")
    every = checked(cli("study", "show", str(path), "--json", "--limit", "0").stdout, is_whole=True)
    assert len(every["differences"]) == len(found["differences"]) + found["left_out"].get("differences", 0)


def test_what_the_counters_say(cli: Any) -> None:
    """Values of an H100 or H200, and advice that names the line."""
    for name in ("counters", "inside"):
        path = str(HERE / f"{name}.kscope")
        kernels = measured(load(path))
        every = checked(cli("metrics", path, "--json", "--limit", "0").stdout, is_whole=True)["kernels"]
        assert [each["kernel"] for each in every] == [each.kernel for each in kernels] != []
        for shown, own in zip(every, kernels, strict=True):
            assert {each["metric"]: each["value"] for each in shown["metrics"]} == own.values
            assert all(each["unit"] is None or isinstance(each["unit"], str) for each in shown["metrics"])
        points = [point for each in checked(cli("roofline", path, "--json", "--limit", "0").stdout, is_whole=True)[
            "rooflines"] for point in each["kernels"]]
        assert [point["duration_ns"] for point in points] == [each.duration_ns for each in kernels]
        assert any(point["flops_per_second"] > 1e12 and 0 < point["roof_share"] < 1 for point in points)
    said = [each for kernel in checked(cli("metrics", str(HERE / "inside.kscope"), "--json").stdout)["kernels"]
            for each in kernel["advice"]]
    assert "uncoalesced" in {each["code"] for each in said}
    assert any(re.search(r"are at line \d+|are at \S+:\d+", each["text"]) for each in said)


def test_two_studies(cli: Any) -> None:
    old, new = (str(HERE / f"launch_overhead{each}.json") for each in ("", "_again"))
    found = checked(cli("study", "compare", old, new, "--fail-over", "1%", "--json", code=3).stdout)
    assert found["fail_over"]["outcome"] == "over" and found["differences"]
    assert checked(cli("study", "launch", "--list-cases", "--json").stdout)["cases"]


def test_what_was_written(cli: Any, recorded: Path, tmp_path: Path) -> None:
    for form, name in (("csv", "out"), ("html", "out.html"), ("bmf", "out.bmf.json")):
        row, = checked(cli("export", str(recorded), "--to", form, "-o", name, "--json").stdout)["written"]
        assert (row["path"], row["format"]) == (name, form) and row["size_bytes"] > 0
    assert checked(cli("show", str(recorded), "--redact", "-o", "r.kscope", "--json").stdout)["kind"] == "written"
    graphs = str(HERE / "graphs.kscope")
    assert checked(cli("graph", graphs, "0", "--svg", "g.svg", "--json").stdout)["written"][0]["format"] == "svg"


def test_merge_and_recover(cli: Any, recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.kscope").write_bytes(recorded.read_bytes())
    (tmp_path / "parts" / "b.kscope").write_bytes(b"torn")
    found = checked(cli("merge", "parts", "-o", "all.kscope", "--json", code=1).stdout)
    assert found["complete"] is False and found["missing"][0]["part"].endswith("b.kscope")
    assert found["written"][0]["path"] == "all.kscope" and found["launches"] == 3
    (tmp_path / "none").mkdir()
    assert checked(cli("recover", "none", "--list", "--json").stdout)["journals"] == []


@pytest.mark.slow
def test_run_keeps_stdout_for_the_answer(process: Any, script: Any) -> None:
    path = script("print('from the program')\nimport os; os.system('echo from a child')\n")
    ran = process("run", "--json", "--limit", "3", str(path))
    found = checked(ran.stdout)
    assert found["counts"]["launches"] == 3 and found["written"][0]["path"].endswith(".kscope")
    assert "from the program" in ran.stderr and "from a child" in ran.stderr


def test_the_doctor_is_as_the_schema_says() -> None:
    found = {
        "kernelscope": "1", "python": "3", "platform": "p", "packages": {"numpy": "2", "nvtx": None},
        "simulator": False, "libraries": {"nvvm": None}, "nvdisasm": None, "can_record": True, "probes": [],
        "frameworks": [], "missing": [{"what": "a", "command": "b"}], "dry_run": {"launches": 1},
        "own_cost": {"file": "c", "calibrations": [], "problems": []}, "counters": {"problem": "there is no GPU here"},
        "recorder": {"extension": "c", "compiler": None, "clock": "tsc", "old": None},
        "at_start": {"file": None, "problem": "none"},
        "gpu": {"problem": "none", "driver": None, "devices": [], "trial": None}}
    assert checked(encoded(doctor_answer(found)))["verdict"].startswith("Recording works here as a dry run")


@pytest.mark.parametrize(("words", "code", "kind"), [
    (["show", "none.kscope", "--json"], 1, "RecordingFileError"),
    (["show", "--json"], 2, "UsageError"),
    (["show", "a", "--cells", "--json"], 2, "UsageError"),
    (["inspect", "a", "--json", "--diff", "1", "2"], 2, "UsageError"),
    (["run", "--json", "missing.py"], 2, "UsageError"),
    (["study", "show", "none.json", "--json"], 1, "StudyFileError"),
    (["study", "launch", "--target", "curent", "--json"], 2, "UsageError"),
])
def test_errors_are_json_with_the_same_exit_code(cli: Any, words: list[str], code: int, kind: str) -> None:
    ran = cli(*words, code=code)
    assert checked(ran.stdout)["error"]["kind"] == kind and ran.stderr == ""


def test_a_program_s_own_json_option_is_not_ours(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("raise SystemExit(3)\n")
    assert "wrote own.kscope" in cli("run", "own.py", "--json", code=3).stdout


def test_names_and_texts_are_data() -> None:
    script = Script(name="odd\x1b[31m")
    script.cell(name="x\u202e")
    script.launchable("evil\x1b]0;\n" + "k" * 5000)
    script.launch()
    recording = script.recording()
    for made in (recording_answer(recording), kernels_answer(recording, inspect_kernels(recording))):
        texts = "".join(_texts(checked(encoded(made))))
        assert "evil\\x1b]0; k" in texts and not {*map(chr, range(32)), "\u202e"} & {*texts}
        assert "are data" in made["note"] and max(made["shortened"].values()) > 5000


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(text for each in value.values() for text in _texts(each))]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


class ToyAnswer(Answer, total=False):
    rows: Many[Any]
    more: Many[Any]
    again: Many[Any]


@pytest.mark.parametrize("texts", [1, 40, 4_000])
def test_an_answer_of_any_recording_fits(texts: int) -> None:
    rows = Many([("x" * texts, [*range(500)])] * 500, lambda each: {"text": each[0], "inside": Many(each[1])})
    made = answer(ToyAnswer, {"verdict": "v" * 9_000, "rows": rows, "more": rows, "again": rows})
    assert len(encoded(made)) <= MOST_LETTERS
    assert made["left_out"]["rows"] == 500 - len(made["rows"])
    assert made["shortened"]["verdict"] == 9_000
    assert len(answer(ToyAnswer, {"verdict": "", "rows": rows}, 7)["rows"]) == 7
    assert answer(ToyAnswer, {"verdict": "", "rows": rows}, 0)["left_out"] == {}
    counted = answer(ToyAnswer, {"verdict": "", "rows": Many([1, 2, 3], more=40)}, 2)
    assert counted["rows"] == [1, 2] and counted["left_out"] == {"rows": 41}
    assert answer(ToyAnswer, {"verdict": "", "rows": Many([1, 2, 3], more=40)}, 0)["left_out"] == {"rows": 40}


@pytest.mark.slow
def test_what_shows_a_recording_prints_one_object(tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-W", "error", "-m", "kernelscope", "show", str(RECORDINGS[0]), "--json"],
                         capture_output=True, text=True, check=True, cwd=ROOT)
    checked(ran.stdout)


def test_every_verb_has_it() -> None:
    """But for the server, whose answers are all of it."""
    def lacking(parser: argparse.ArgumentParser) -> list[str]:
        below = [each for action in parser._actions if isinstance(action, argparse._SubParsersAction)
                 for each in action.choices.values()]
        has = any("--json" in action.option_strings for action in parser._actions)
        return [name for each in below for name in lacking(each)] if below else [] if has else [parser.prog]

    assert lacking(parser_of()) == ["kernelscope mcp"]
