"""`kernelscope show`: a file as text, tables and JSON."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelscope import load
from kernelscope.commands.cli import main

ROOT = Path(__file__).resolve().parents[2]


def test_the_card(cli: Any, recorded: Path) -> None:
    text = cli("show", str(recorded)).stdout
    assert "3 launches" in text
    assert "<second>" in text


def test_cells_and_launches(cli: Any, recorded: Path) -> None:
    notice, head, first, phases, second, *_ = cli("show", str(recorded), "--cells").stdout.splitlines()
    assert "dry run" in notice
    assert head.startswith("cell")
    assert first.split()[3:6] == ["3", "1", "0"]
    assert "dispatch" in phases and "<second>" in second
    assert len(cli("show", str(recorded), "--launches").stdout.splitlines()) == 2 + 3
    assert "and 2 more launches" in cli("show", str(recorded), "--launches", "--limit", "1").stdout
    assert len(cli("show", str(recorded), "--launches", "--limit", "0").stdout.splitlines()) == 2 + 3


def test_lines(cli: Any, recorded: Path) -> None:
    notice, head, line = cli("show", str(recorded), "--lines").stdout.splitlines()
    assert "dry run" in notice and head.split()[:3] == ["line", "function", "launches"]
    assert line.startswith("command_fixtures.py:") and line.split()[2] == "3"


@pytest.mark.parametrize("cell", ["1", "first"])
def test_one_cell(cli: Any, recorded: Path, cell: str) -> None:
    found = json.loads(cli("show", str(recorded), "--json", "--cell", cell).stdout)
    assert [row["cell"] for row in found["cells"]] == ["In [1] first"]


def test_json_is_what_the_card_says(cli: Any, recorded: Path) -> None:
    found = json.loads(cli("show", str(recorded), "--json").stdout)
    first = found["cells"][0]
    assert (first["cell"], first["status"], first["launches"], first["host_ns"]) == ("In [1] first", "ok", 3, 30_000)
    card = " ".join(cli("show", str(recorded)).stdout.split())
    assert found["verdict"] in card and found["health"]["dry_run"] is True


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(recorded: Path) -> None:
    process = subprocess.Popen([sys.executable, "-W", "error", "-m", "kernelscope", "show", str(recorded), "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), errors) == (141, "")


def test_a_torn_file_is_one_line(cli: Any, recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "torn.kscope").write_bytes(recorded.read_bytes()[:500])
    ran = cli("show", "torn", code=1)
    assert ran.stderr.startswith("kernelscope: torn.kscope: ")
    assert ran.stderr.count("\n") == 1


def test_a_full_disk_behind_stdout_is_one_line(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = open("/dev/full", "w")  # noqa: SIM115 - to close it fails too
    with contextlib.redirect_stdout(full):
        assert main(["show", str(recorded)]) == 1
    with contextlib.suppress(OSError):
        full.close()
    assert capsys.readouterr().err == "kernelscope: [Errno 28] No space left on device\n"


def test_redacted(cli: Any, recorded: Path, tmp_path: Path) -> None:
    for options in ([], ["--json"], ["--cells"], ["--launches"]):
        text = cli("show", str(recorded), "--redact", *options).stdout
        assert "axpy" not in text and "second" not in text.replace("_per_second", "")
    assert json.loads(cli("show", str(recorded), "--json", "--redact").stdout)["recording"]["redacted"] is True
    ran = cli("show", str(recorded), "--redact", "-o", "shared.kscope")
    assert ran.stdout == "wrote shared.kscope without source, code and names\n"
    assert load(tmp_path / "shared.kscope").dispatchers.name.tolist() == ["kernel_1"]
    wrong = cli("show", str(recorded), "-o", "shared.kscope", code=2)
    assert "-o goes with --redact" in wrong.stderr


def test_redacting_does_not_replace_the_recording_itself(cli: Any, recorded: Path) -> None:
    before = recorded.read_bytes()
    wrong = cli("show", str(recorded), "--redact", "-o", str(recorded.parent / "." / recorded.name), code=2)
    assert "would replace what it is made from" in wrong.stderr and wrong.stderr.count("\n") == 1
    assert recorded.read_bytes() == before
