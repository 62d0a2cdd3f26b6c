"""`kernelscope study`: what its words mean, what it prints where, what it writes, and its exit codes."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade_studies import COSTS, measured, troubled
from stand_in_studies import Studies

from kernelscope import studies
from kernelscope.commands.cli import main
from kernelscope.errors import StudyError
from kernelscope.studies import environments
from kernelscope.studies.breakdown import AnatomyResult, MeasuredBreakdown
from kernelscope.studies.result import StudyResult
from kernelscope.studies.runner import BATCH_MS, HALF_WIDTH

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def slower(asked: Studies) -> Studies:
    """A study in which one of two targets is 50 % slower, by far."""
    asked.result = StudyResult(measured({name: COSTS[name] for name in ("baseline", "contextvar")}))
    return asked


def ended(arguments: list[str], capsys: Captured) -> tuple[int, str]:
    """The exit code of wrong arguments, and the one line on stderr."""
    with pytest.raises(SystemExit) as raised:
        main(["study", *arguments])
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert isinstance(raised.value.code, int)
    return raised.value.code, err


def test_what_a_line_asks_for_is_measured_printed_and_saved(asked: Studies, tmp_path: Path, capsys: Captured) -> None:
    target = tmp_path / "results.json"
    words = ("--target baseline=../numba-cuda-main --target v2=../wt --target mlir=numba-cuda-mlir==0.6.0 --args 0-4 "
             f"--loops 100000,...,10000 --repeats 7 -o {target}")
    assert main(["study", "launch", *words.split()]) == 0
    assert asked.asked == [(
        "launch_overhead", (("baseline=../numba-cuda-main", "v2=../wt", "mlir=numba-cuda-mlir==0.6.0"), None),
        {"args": "0-4", "loops": "100000,...,10000", "repeats": 7})]
    out, err = capsys.readouterr()
    assert out == f"{asked.result}\n"
    assert err == f"wrote {target}\n"
    assert studies.load(target).measured == asked.result.measured


def test_what_is_not_asked_for_has_its_default_there(asked: Studies, capsys: Captured) -> None:
    assert main(["study", "launch"]) == 0
    assert asked.asked == [("launch_overhead", (("current",), None), {})]


@pytest.mark.parametrize(("words", "options"), [
    ("--half-width 1.5%", {"half_width": 0.015}),
    ("--half-width 0", {"half_width": None}),
    ("--limit 90", {"limit_s": 90.0}),
    ("--limit 90s --timeout 5", {"limit_s": 90.0, "timeout_s": 5.0}),
    ("--find-links a --find-links b --no-index", {"find_links": ["a", "b"], "no_index": True}),
    ("--no-install --no-pin --dryrun", {"install": False, "pin": False, "dry_run": True}),
    ("--repo ../r --seed 3 --processes 20", {"repo": "../r", "seed": 3, "processes": 20}),
    ("--loops 1000", {"loops": "1000"}),
    ("-q", {"progress": False}),
])
def test_options(asked: Studies, words: str, options: dict[str, Any]) -> None:
    assert main(["study", "launch", *words.split()]) == 0
    assert asked.options == options


def test_cases(asked: Studies) -> None:
    assert main(["study", "launch", "--case", "graph", "--case", "26 arrays"]) == 0
    assert asked.asked[0][1] == (("current",), ["graph", "26 arrays"])


def test_against(asked: Studies, capsys: Captured) -> None:
    assert main(["study", "against", "HEAD~", "HEAD", "--repo", "some where", "--args", "0,2"]) == 0
    assert asked.asked == [("against", ("HEAD~", "HEAD"), {"cases": None, "repo": "some where", "args": "0,2"})]
    capsys.readouterr()
    code, said = ended(["against", "HEAD"], capsys)
    assert code == 2 and "a comparison needs two refs or more, and there is 'HEAD' alone" in said


def test_anatomy_and_suite(asked: Studies, capsys: Captured) -> None:
    assert main(["study", "anatomy", "-t", "a=current", "-t", "b=../wt", "--case", "4 args", "--processes", "8"]) == 0
    assert asked.asked[-1] == ("anatomy", (("a=current", "b=../wt"),), {"case": ["4 args"], "processes": 8})
    assert main(["study", "suite", "-t", "current", "-k", "one_arg", "--max-time", "0.5", "--no-pin"]) == 0
    assert asked.asked[-1] == ("suite", (("current",),), {"keyword": "one_arg", "max_time_s": 0.5, "pin": False})
    assert main(["study", "suite", "a=one.json", "a=two.json", "b=three.json"]) == 0
    assert asked.asked[-1] == ("read_benchmarks", (["a=one.json", "a=two.json", "b=three.json"],), {})
    capsys.readouterr()
    code, said = ended(["suite", "a.json", "--target", "current"], capsys)
    assert code == 2 and "name --target or files, not both" in said


def test_what_the_library_refuses_is_one_line_and_code_1(asked: Studies, capsys: Captured) -> None:
    asked.raised = StudyError("target 'x' is none\nof the targets")
    assert main(["study", "launch", "-t", "x"]) == 1
    assert capsys.readouterr() == ("", "kernelscope: target 'x' is none of the targets\n")


def test_outputs_are_checked_before_anything_is_measured(
    asked: Studies, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "folder.json").mkdir()
    monkeypatch.chdir(tmp_path)
    for words, said in (
        ("-o missing/r.json", "there is no folder missing"),
        ("-o folder.json", "cannot write folder.json: a folder has that name"),
        ("-o /dev/null", "cannot write /dev/null: it is no regular file; name a .json file"),
        ("-o r.html", "what goes there is JSON; name a .json file"),
        ("--html r.json", "what goes there is HTML; name a .html file"),
        ("-o r.kscope", "is a recording's name"),
        ("-o r.txt --html ./r.txt", "would replace r.txt: name another file"),
    ):
        assert main(["study", "launch", *words.split()]) == 1
        out, err = capsys.readouterr()
        assert out == "" and said in err and err.count("\n") == 1, err
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and allowed(path, mode))
    assert main(["study", "launch", "-o", "r.json"]) == 1
    assert "there is no permission to write into" in capsys.readouterr().err
    assert not asked.asked


def test_an_input_is_not_overwritten(asked: Studies, tmp_path: Path, capsys: Captured) -> None:
    saved = asked.result.save(tmp_path / "one.json")
    kept = saved.read_bytes()
    assert main(["study", "suite", f"a={saved}", "-o", str(saved)]) == 1
    assert "would replace" in capsys.readouterr().err
    assert saved.read_bytes() == kept and not asked.asked


def test_what_cannot_be_written_is_shown(
    asked: Studies, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(path: Any) -> None:
        raise StudyError(f"cannot write {path}: no space left on device")

    monkeypatch.setattr(asked.result, "save", full, raising=False)
    assert main(["study", "launch", "-o", str(tmp_path / "r.json")]) == 1
    out, err = capsys.readouterr()
    assert out == f"{asked.result}\n" and "no space left on device" in err


def test_json_is_all_of_stdout(asked: Studies, tmp_path: Path, capsys: Captured) -> None:
    assert main(["study", "launch", "--json", "--html", str(tmp_path / "page.html")]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["kind"] == "study" and found["written"][0]["path"] == str(tmp_path / "page.html")
    assert err == f"wrote {tmp_path / 'page.html'}\n"
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_quiet_says_nothing_but_the_result(asked: Studies, tmp_path: Path, capsys: Captured) -> None:
    assert main(["study", "launch", "-q", "-o", str(tmp_path / "r.json")]) == 0
    assert capsys.readouterr() == (f"{asked.result}\n", "")


@pytest.mark.parametrize(("limit", "code", "said"), [
    ("3%", 3, "over the limit of 3 %"), ("60", 0, "no slowdown of more than 60 %")])
def test_fail_over(slower: Studies, capsys: Captured, limit: str, code: int, said: str) -> None:
    assert main(["study", "launch", "--fail-over", limit]) == code
    out, err = capsys.readouterr()
    assert said in err and out == f"{slower.result}\n"


def test_what_cannot_be_told_is_said_and_fails_nothing(asked: Studies, capsys: Captured) -> None:
    asked.result = StudyResult(measured({name: COSTS[name] for name in ("baseline", "v2")}, processes=6, between=0.2))
    assert asked.result.check(3).outcome == "cannot tell"
    assert main(["study", "launch", "--fail-over", "3%"]) == 0
    assert "cannot tell whether it is within 3 %" in capsys.readouterr().err


def test_a_failed_target_is_code_1_and_the_others_are_kept(asked: Studies, tmp_path: Path, capsys: Captured) -> None:
    asked.result = StudyResult(troubled())
    target = tmp_path / "r.json"
    assert main(["study", "launch", "-o", str(target)]) == 1
    out, _ = capsys.readouterr()
    assert "no matching distribution found" in out and target.exists()
    # A limit that is broken counts more than that; looking at the file again fails for neither.
    asked.result = StudyResult(measured({name: COSTS[name] for name in ("baseline", "contextvar")}))
    asked.result.measured.targets.append(replace(troubled().targets[2]))
    assert main(["study", "launch", "--fail-over", "3%"]) == 3
    assert main(["study", "show", str(target)]) == 0


def test_an_interruption_prints_and_saves_what_was_measured(asked: Studies, tmp_path: Path, capsys: Captured) -> None:
    asked.interrupt()
    target = tmp_path / "r.json"
    assert main(["study", "launch", "-o", str(target), "--fail-over", "3%"]) == 130
    out, err = capsys.readouterr()
    assert out == f"{asked.result}\n"
    assert err == f"wrote {target}\nkernelscope: interrupted; what was measured until then is shown\n"
    assert studies.load(target).measured.ended == "interrupted"
    asked.interrupt(is_early=True)
    assert main(["study", "launch"]) == 130
    assert capsys.readouterr() == ("", "kernelscope: interrupted\n")


def test_show(asked: Studies, tmp_path: Path, capsys: Captured) -> None:
    saved = asked.result.save(tmp_path / "r.json")
    assert main(["study", "show", str(saved)]) == 0
    assert capsys.readouterr() == (f"{asked.result}\n", "")
    page = tmp_path / "page.html"
    assert main(["study", "show", str(saved), "--html", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "study" and page.exists()
    assert main(["study", "show", str(tmp_path / "none.json")]) == 1
    assert "none.json" in capsys.readouterr().err
    page.write_text("{}")
    assert main(["study", "show", str(page)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_show_an_anatomy(tmp_path: Path, capsys: Captured) -> None:
    result = AnatomyResult(MeasuredBreakdown(StudyResult(measured({"base": {4: 5.0}, "v2": {4: 6.0}})).measured))
    saved = result.save(tmp_path / "a.json")
    assert main(["study", "show", str(saved)]) == 0
    assert capsys.readouterr().out == f"{result}\n"
    with pytest.raises(SystemExit, match="2"):
        main(["study", "show", str(saved), "--fail-over", "3%"])
    assert "--fail-over is about a study's differences, and this is an anatomy" in capsys.readouterr().err
    study = StudyResult(measured({"base": {4: 5.0}})).save(tmp_path / "s.json")
    assert main(["study", "compare", str(study), str(saved)]) == 1
    assert capsys.readouterr().err.startswith("kernelscope: a.json: it is an anatomy and no study;")
    saved.write_text('{"format": "kernelscope-anatomy"}')
    assert main(["study", "show", str(saved)]) == 1
    assert "a.json" in capsys.readouterr().err


def test_compare(slower: Studies, tmp_path: Path, capsys: Captured) -> None:
    old = slower.result.save(tmp_path / "old.json")
    slow = {args: cost * 1.3 for args, cost in COSTS["contextvar"].items()}
    costs = {"baseline": COSTS["baseline"], "contextvar": slow}
    new = StudyResult(measured(costs, seed=1)).save(tmp_path / "new.json")
    assert main(["study", "compare", str(old), str(new), "--fail-over", "10%"]) == 3
    out, err = capsys.readouterr()
    assert out == f"{studies.compare(old, new)}\n" and err.count("contextvar") == 5
    assert main(["study", "compare", str(old), str(new), "--fail-over", "50%"]) == 0
    page = tmp_path / "page.html"
    assert main(["study", "compare", str(old), str(new), "--html", str(page)]) == 0
    assert page.exists()
    capsys.readouterr()
    assert main(["study", "compare", str(old), str(new), "--html", str(old)]) == 1
    assert "old.json" in capsys.readouterr().err and studies.load(old).cases


def test_a_comparison_as_json(slower: Studies, tmp_path: Path, capsys: Captured) -> None:
    old = slower.result.save(tmp_path / "old.json")
    assert main(["study", "compare", str(old), str(old), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "study_comparison" and found["old"]["targets"] == ["baseline", "contextvar"]
    first = found["differences"][0]
    assert first["verdict"] == "no difference seen" and first["old_us"] == first["new_us"] > 0
    assert len(found["differences"]) == 10


def test_clean_removes_kept_environments_but_none_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured,
) -> None:
    folder = tmp_path / "kept"
    monkeypatch.setenv(environments.FOLDER, str(folder))
    assert main(["study", "clean"]) == 0
    assert capsys.readouterr().out == f"0 environments removed from {folder}\n"
    for name in ("free-1", "used-2"):
        (folder / name / "bin").mkdir(parents=True)
    (folder / "free-1.lock").touch()
    with (folder / "used-2.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert main(["study", "clean"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "removed free-1", "kept used-2: a study uses it, or it cannot be removed",
        f"1 environment removed from {folder}"]
    assert sorted(each.name for each in folder.iterdir()) == ["used-2", "used-2.lock"]


def test_clean_says_what_it_cannot_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured,
) -> None:
    monkeypatch.setenv(environments.FOLDER, str(tmp_path))
    (tmp_path / "torn.lock").mkdir()
    assert main(["study", "clean"]) == 1
    assert capsys.readouterr().err.startswith(f"kernelscope: environments cannot be removed from {str(tmp_path)!r}: ")


@pytest.mark.slow
def test_a_real_study_in_a_process(process: Any, cli: Any, tmp_path: Path) -> None:
    ran = process("study", "launch", "--dryrun", "-t", "first=current", "-t", "again=current", "--args", "0,2",
              "--processes", "1", "--repeats", "3", "-o", "r.json", KERNELSCOPE_DRYRUN=None)
    assert ran.stderr == "wrote r.json\n"
    assert ran.stdout.startswith("*** dry run") and "Deltas vs first:" in ran.stdout
    result = studies.load(tmp_path / "r.json")
    assert [each.label for each in result.targets] == ["first", "again"]
    assert 12 <= len(result.measured.batches) <= 20  # half as many more where the machine is not quiet
    assert cli("study", "show", "r.json").stdout == ran.stdout


def test_list_cases(asked: Studies, capsys: Captured) -> None:
    assert main(["study", "launch", "--list-cases"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "empty:"
    names = {line.split("  against")[0].strip() for line in lines if line.startswith("  ")}
    assert names == {*studies.built_in_cases()}
    assert any(f"  against {each.against}" in line for each in studies.built_in_cases().values() if each.against
               for line in lines)
    assert not asked.asked


def test_help_has_the_defaults_of_the_library(capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["study", "launch", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert f"0: do not (default: {100 * HALF_WIDTH:g}%)" in said
    assert f"(default: as many as take {BATCH_MS:g} ms)" in said


@pytest.mark.parametrize(("words", "said"), [
    ("launch -t nothing==3", "target 'nothing==3' is none of the targets there are"),
    ("launch -t missing/folder", "target 'missing/folder': there is no such file or folder"),
    ("launch -t a=current -t a=current", "two targets are called 'a'"),
    ("launch -t git:HEAD --repo missing", "a ref of the repository 'missing', and there is no such folder"),
    ("launch --case nope", "there is no case and no group 'nope'"),
    ("launch --args 4-0", "goes backwards"),
    ("launch --args 65", "a kernel with 65 arguments"),
    ("launch --loops 1,2", "2 numbers for 5 cases"),
    ("launch --loops 0", "'0' is no number from 1"),
    ("launch --half-width 200%", "half_width=2.0 is no share of a launch"),
    ("launch --processes 20000", "processes=20000 is no number from 1 to 10,000"),
    ("launch --limit 0s", "'0s' is not a number of seconds above 0"),
    ("launch --half-width=-1%", "'-1%' is not a percentage, such as 3%"),
    ("launch --loops a,b", "'a,b' are no numbers of loops, such as 10000 or 100000,...,10000"),
    ("against HEAD HEAD~ --repo missing", "there is no such folder"),
    ("anatomy -t nothing==3", "target 'nothing==3' is none of the targets there are"),
    ("anatomy --loops 99999999", "loops=99999999 is no number of launches in a batch"),
    ("suite -t nothing==3", "target 'nothing==3' is none of the targets there are"),
    ("suite --max-time 0", "'0' is not a number of seconds above 0"),
    ("show r.json --fail-over -3%", "not a percentage" if sys.version_info >= (3, 14) else "expected one argument"),
])
def test_wrong_values_are_one_line_and_code_2_also_where_the_study_finds_them(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNELSCOPE_STUDY_ENVIRONMENTS", str(tmp_path))
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    with pytest.raises(SystemExit) as raised:
        main(["study", *words.split()])
    out, line = capsys.readouterr()
    assert raised.value.code == 2 and out == "" and line.count("\n") == 1
    assert said in line and line.endswith(" --help\n") and "see kernelscope" in line


def test_a_target_that_cannot_be_had_is_code_1(tmp_path: Path, cli: Any) -> None:
    ran = cli("study", "launch", "-t", "git:HEAD", "--repo", str(tmp_path), code=1)
    assert ran.stderr.startswith("kernelscope: the baseline cannot be prepared: ") and ran.stderr.count("\n") == 1
