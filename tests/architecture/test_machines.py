"""What the documentation tells programs and assistants is so: the workflow's commands parse, the skill's answer."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from two_runs import run

from kernelscope.commands.cli import main, parser_of
from kernelscope.recording.file import load
from kernelscope.views.card.answer import PARTS

ROOT = Path(__file__).resolve().parents[2]
DOCS, HERE = ROOT / "docs", ROOT / "notebooks" / "recordings"
WORKFLOW, SKILL = DOCS / "examples" / "kernelscope.yml", DOCS / "assistants" / "SKILL.md"


def commands(text: str) -> list[list[str]]:
    """The words of each command of ``kernelscope`` in a shell script."""
    found = re.findall(r"(?:^|\(cd \w+ && )\s*kernelscope (.*?)\)?$", text, re.MULTILINE)
    return [shlex.split(line) for line in found]


def test_the_workflow_is_yaml_whose_commands_parse() -> None:
    jobs = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    assert [*jobs] == ["compiles-and-launches", "launch-times"]
    for name, job in jobs.items():
        scripts = [step["run"] for step in job["steps"] if "run" in step]
        assert all({"run", "uses"} & {*step} for step in job["steps"])
        found = [words for script in scripts for words in commands(script)]
        assert [words[0] for words in found].count("run") == 2
        asked = {words[0]: parser_of({words[0]}).parse_args(words) for words in found}
        assert asked["compare"].files == ["base.kscope", "new.kscope"]
        assert asked["compare"].fail_on == ["new-compiles", "more-launches"]
        assert asked["compare"].fail_over == (None if name == "compiles-and-launches" else "5%")
    guide = [line.partition("`")[0].split() for line in (DOCS / "guides" / "ci.md").read_text(
        encoding="utf-8").split("`kernelscope ")[1:]]
    assert "compare" in [parser_of({words[0]}).parse_args(words).verb for words in guide]
    assert "examples/kernelscope.yml" in (DOCS / "guides" / "ci.md").read_text(encoding="utf-8")


def skill_commands() -> list[list[str]]:
    return commands("\n".join(re.findall(r"```bash\n(.*?)```", SKILL.read_text(encoding="utf-8"), re.DOTALL)))


def answered(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(words) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("words", skill_commands(), ids=" ".join)
def test_the_skill_s_commands_answer(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                     capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(HERE / "specializations.kscope", "out.kscope")
    for name, other in (("before", "lines_training"), ("after", "torch_training")):
        shutil.copy(HERE / f"{other}.kscope", f"{name}.kscope")
    found = answered(words, capsys)
    health = {"roofline": "healths", "compare": "after"}.get(words[0], "health")
    assert found["verdict"] and found[health]
    if words[0] == "show" and "--cell" not in words:
        assert "82 % compiling 7 kernels, 17 times" in found["verdict"]
        assert "for changed arguments" in found["first"]["text"] and found["health"]["complete"]
        assert found["time"]["parts"][0]["part"] == "compile"
        assert all(each["why"] for each in found["compiles"]) and found["compiles"][0]["fix"]
        assert found["advice"][0]["saves_at_most_ns"] > 0
        assert len(found["compiles"]) == (12 if len(words) == 3 else 19)
    if words[0] == "inspect":
        assert [each["name"] for each in found["kernels"]] == ["axpy"]
        assert {"regs", "uses", "compiles"} <= {*found["kernels"][0]["specializations"][0]}
    if words[0] in ("metrics", "roofline"):
        assert "No kernel's counters were measured" in found["verdict"]
        shutil.copy(HERE / "inside.kscope", "out.kscope")
        measured = answered(words, capsys)
        first = (measured["kernels"] if words[0] == "metrics" else measured["rooflines"][0]["kernels"])[0]
        assert first["kernel"] == "naive" and first["duration_ns"] > 1e6
        if words[0] == "metrics":
            said = {each["code"]: each["text"] for each in first["advice"]}
            assert "far apart" in said["uncoalesced"] and "at line 7" in said["uncoalesced"]
            assert "Let neighbouring threads" in said["uncoalesced"]
        else:
            assert first["bound"] == "memory" and 0 < first["roof_share"] < 0.1
    if words[0] == "compare":
        assert found["sections"]["kernels"]["changed"]
        for name, each in (("before", run(1)), ("after", run(2, changed={"execute": 1.6}))):
            each.save(f"{name}.kscope")
        found = answered(words, capsys)
        assert found["judged"]["slower"] == 2
        assert [(each["measure"], each["verdict"]) for each in found["differences"][:2]] == [("execute", "slower")] * 2


@pytest.mark.parametrize(("recording", "largest", "said"), [
    ("specializations", "compile", "82 % compiling 7 kernels"), ("torch_training", "python", "Python outside launches"),
    ("triton_autotune", "compile", "autotuning matmul twice"), ("graphs", "compile", "working on graphs"),
])
def test_the_verdict_names_what_took_the_time(recording: str, largest: str, said: str,
                                              capsys: pytest.CaptureFixture[str]) -> None:
    found = answered(["show", str(HERE / f"{recording}.kscope"), "--json"], capsys)
    assert said in found["verdict"] and found["time"]["parts"][0]["part"] == largest
    assert " ".join(load(HERE / f"{recording}.kscope").summary().split()).find(found["verdict"]) > 0


def test_what_the_skill_calls_members_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    text = SKILL.read_text(encoding="utf-8")
    schema = json.loads((DOCS / "reference" / "answer.schema.json").read_text(encoding="utf-8"))
    known = {name for each in schema["$defs"].values() for name in each.get("properties", {})}
    known |= {*PARTS, "compile", "launch", "python", "wait", "graph", "inspect", "metrics", "roofline", "kernelscope",
              "list_recordings", "message", "compare", "history", "execute", "uncoalesced", "specializations"}
    used = re.findall(r"`([a-z_]+(?:\.[a-z_]+)*)`", text)
    assert len(used) > 20
    assert [word for word in used if not {*word.split(".")} <= known] == []
