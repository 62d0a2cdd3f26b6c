"""`kernelscope inspect`: kernels, specializations, code and diffs of a file."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from handmade import MS, Script

from kernelscope import load
from kernelscope.commands.cli import main
from kernelscope.views.inspector import model
from kernelscope.views.inspector.text import inspection_text

TYPES = [{"line": 3, "name": "x", "type": "array(float32, 1d, C)", "expr": "arg(0, name=x)"},
         {"line": 4, "name": "$2", "type": "int64", "expr": ""}]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    script = Script(name="inspected")
    script.rows["threads"] = [{"thread_id": 0, "ident": 1, "name": "MainThread"}]
    script.cell(execution_count=1)
    script.kernel("outer.axpy", arguments="x")
    script.kernel("total")
    script.specialization(0, regs=18)
    script.specialization(0, "(array(float64, 1d, C),)", regs=22)
    script.specialization(1, "(int64,)", regs=40)
    script.configuration()
    script.launch(0)
    script.compilation(1, 50 * MS, specialization_id=2)
    for kind, text in (("types", json.dumps(TYPES)), ("ptx", "// one\n\tret;\n"), ("llvm", "define \x1b[31m"),
                       ("cubin", base64.b64encode(b"machine").decode())):
        script._add("code", None, {"dispatcher_id": 0, "specialization_id": 0, "kind": kind, "text": text})
    script._add("code", None, {"dispatcher_id": 0, "specialization_id": 1, "kind": "ptx", "text": "// two\n\tret;"})
    script._add("code", None, {"dispatcher_id": 0, "kind": "source", "text": "def axpy(x): ...\n"})
    return script.recording().save(tmp_path / "inspected.kscope", paths=True)  # what is no cubin is not saved without


def out(capsys: Any, *arguments: object, code: int = 0) -> str:
    assert main(["inspect", *map(str, arguments)]) == code
    return capsys.readouterr().out


def test_a_kernel_that_is_not_there_is_one_line(cli: Any, recorded: Path) -> None:
    ran = cli("inspect", str(recorded), "nope", code=1)
    assert ran.stderr == "kernelscope: no recorded kernel 'nope'; known: 'axpy'\n"


def test_it_prints_what_the_renderer_says(capsys: Any, file: Path) -> None:
    recording = load(file)
    assert out(capsys, file) == inspection_text(recording, width=None) + "\n"
    assert out(capsys, file, "axpy") == inspection_text(recording, "outer.axpy", width=None) + "\n"
    assert out(capsys, file, "axpy", "--specialization", 2) == inspection_text(recording, "0", 2, None) + "\n"
    first = out(capsys, file, "--sort", "registers").splitlines()[2]
    assert first.split()[0] == "total"
    assert out(capsys, file, "--sort", "compile").splitlines()[2].split()[0] == "total"


@pytest.mark.parametrize(("kind", "text"), [
    ("source", "def axpy(x): ...\n"), ("ptx", "// one\n\tret;\n"), ("llvm", "define \x1b[31m\n"),
    ("types", "    3  x: array(float32, 1d, C) = arg(0, name=x)\n    4  $2: int64\n")])
def test_code_and_nothing_else(capsys: Any, file: Path, kind: str, text: str) -> None:
    assert out(capsys, file, "axpy", "--code", kind) == text


def test_a_terminal_obeys_no_escape_in_code(capsys: Any, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert out(capsys, file, "axpy", "--code", "llvm") == "define \\x1b[31m\n"
    assert out(capsys, file, "axpy", "--code", "ptx") == "// one\n\tret;\n"


def test_code_that_was_not_recorded_says_how(capsys: Any, file: Path) -> None:
    assert out(capsys, file, "axpy", "--specialization", 2, "--code", "llvm", code=1) == ""
    main(["inspect", str(file), "axpy", "--specialization", "2", "--code", "llvm"])
    assert capsys.readouterr().err == (
        "kernelscope: llvm of specialization 2 cannot be shown: This recording holds no LLVM IR of this "
        "specialization; it holds source, ptx.\n")


def test_sass_comes_from_the_recorded_machine_code(capsys: Any, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "disassemble", lambda cubin: f"SASS of {cubin.decode()}")
    assert out(capsys, file, "axpy", "--code", "sass") == "SASS of machine\n"
    assert out(capsys, file, "axpy", "--code", "sass", "--specialization", 2, code=1) == ""


def test_a_diff(capsys: Any, file: Path) -> None:
    text = out(capsys, file, "axpy", "--diff", 1, 2)
    assert {"-x: float32[:] C", "+x: float64[:] C", "-registers: 18", "+registers: 22"} <= set(text.splitlines())
    text = out(capsys, file, "axpy", "--diff", 1, 2, "--code", "ptx")
    assert "-// one\n+// two\n \tret;" in text and "+registers: 22" in text
    assert out(capsys, file, "axpy", "--diff", 1, 1) == "no difference in types and resources\n"
    assert out(capsys, file, "axpy", "--diff", 1, 1, "--code", "ptx") == "no difference in ptx\n"
    assert out(capsys, file, "--diff", 1, 2, code=1) == ""


def test_json(capsys: Any, file: Path) -> None:
    every = json.loads(out(capsys, file, "--json"))
    assert [kernel["name"] for kernel in every["kernels"]] == ["outer.axpy", "total"]
    one, = json.loads(out(capsys, file, "axpy", "--json"))["kernels"]
    assert [each["regs"] for each in one["specializations"]] == [18, 22]
    assert one["specializations"][0]["uses"][0]["launches"] == 1
    one, = json.loads(out(capsys, file, "axpy", "--specialization", 2, "--json"))["kernels"]
    assert [each["number"] for each in one["specializations"]] == [2]


@pytest.mark.parametrize("text", ["!!!", "é", "abc"])
def test_machine_code_that_is_none_is_told_in_one_line(capsys: Any, tmp_path: Path, text: str) -> None:
    script = Script(name="torn")
    script.kernel("axpy")
    script.specialization(0)
    script._add("code", None, {"dispatcher_id": 0, "specialization_id": 0, "kind": "cubin", "text": text})
    path = script.recording().save(tmp_path / "torn.kscope", paths=True)
    assert main(["inspect", str(path), "--code", "sass"]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("kernelscope: the machine code of specialization 1 is torn: ")
    assert said.err.count("\n") == 1 and not said.out


def test_types_that_are_nested_without_end_are_shown_as_they_are(capsys: Any, tmp_path: Path) -> None:
    script = Script(name="nested")
    script.kernel("axpy")
    script.specialization(0)
    script._add("code", None, {"dispatcher_id": 0, "specialization_id": 0, "kind": "types", "text": "[" * 100_000})
    assert out(capsys, script.recording().save(tmp_path / "nested.kscope"), "--code", "types") == "[" * 100_000 + "\n"


def test_code_that_could_not_be_recorded_is_explained(capsys: Any, tmp_path: Path) -> None:
    script = Script(name="made")
    script.kernel("axpy")
    script.specialization(0)
    script.rows["health"] = [{"probe": "numba-cuda", "status": "degraded", "message":
                              "the code of some kernels is incomplete: source is not to be found: axpy"}]
    script.metadata["code"] = True
    path = script.recording().save(tmp_path / "made.kscope")
    assert main(["inspect", str(path), "--code", "source"]) == 1
    said = capsys.readouterr().err
    assert "source is not to be found: axpy" in said and "--code, or" not in said
