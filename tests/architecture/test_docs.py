"""The documentation's own code: the probe of the guide works, and every Python block is Python."""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kernelscope
from kernelscope import registry, studies
from kernelscope.commands import cell, cli, verb

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def python_blocks(page: Path) -> list[str]:
    return blocks(page, "python")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_python_blocks_parse(page: Path) -> None:
    for block in python_blocks(page):
        ast.parse(block)


#: Comes before the guide of studies, so that its studies are small ones.
SMALL = """
from kernelscope.studies import overhead
whole = overhead.launch_overhead
overhead.launch_overhead = lambda *given, **named: whole(*given, **named | {"processes": 1, "repeats": 3})
"""


@pytest.mark.slow
@pytest.mark.timeout(960)
def test_the_guide_of_studies_runs(tmp_path: Path) -> None:
    """Block after block, as a reader would, on the dry run."""
    script = tmp_path / "guide.py"
    blocks = python_blocks(DOCS / "guides" / "launch-overhead.md")
    script.write_text("\n".join([SMALL, *blocks, "print(live)\n"]))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=900, cwd=tmp_path,
                          env={**os.environ, "KERNELSCOPE_DRYRUN": "1", "PYTHONPATH": str(DOCS.parent)})
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Launch overhead (us/launch):" in done.stdout
    assert "held(matrix)" in done.stdout and "k[1, 1, 0](a)" in done.stdout
    assert (tmp_path / "today.json").stat().st_size > 1000


def test_every_public_name_of_studies_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "studies.md").read_text(encoding="utf-8")
    assert [name for name in studies.__all__ if not re.search(rf"^\.\. auto.*\.{name}$", text, re.MULTILINE)] == []


GUIDE = DOCS / "how-to-write-a-probe.md"


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The framework of the guide and its probe, as files that can be imported."""
    framework, probe, *_ = python_blocks(GUIDE)
    (tmp_path / "toy.py").write_text(framework)
    (tmp_path / "kernelscope_toy.py").write_text(probe)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("toy")
    for name in ("toy", "kernelscope_toy"):
        sys.modules.pop(name, None)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install what a pyproject.toml says, as pip leaves it: metadata and entry points beside the modules."""

    def put(project: dict[str, Any]) -> None:
        project = project["project"]
        folder = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
        lines = [line for group, entries in project["entry-points"].items()
                 for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))]
        (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
        importlib.invalidate_caches()
        registry._entry_points.cache_clear()

    yield put
    monkeypatch.undo()
    registry._entry_points.cache_clear()


def test_the_guide_s_probe_records_and_undoes(toy: Any) -> None:
    trial = python_blocks(GUIDE)[2]
    names: dict[str, Any] = {"print": lambda *_: None}
    original, code = toy.Kernel.run, toy.Kernel.run.__code__
    exec(trial, names)
    assert toy.Kernel.run is original
    assert toy.Kernel.run.__code__ is code

    recording = names["recorder"].recording
    assert len(recording.launches) == 1
    assert recording.dispatchers.name.tolist() == ["axpy"]
    assert recording.configurations.griddim_x.tolist() == [4]
    assert recording.health.errors.fillna(0).sum() == 0


def test_the_guide_s_probe_lets_errors_through(toy: Any) -> None:
    probe = importlib.import_module("kernelscope_toy").ToyProbe()
    recorder = kernelscope.Recorder("trial", probes=[probe])
    with pytest.raises(KeyboardInterrupt), recorder:
        toy.Kernel("axpy").run((4,), (128,), KeyboardInterrupt())
    launches = recorder.recording.launches
    assert launches.error.tolist() == ["KeyboardInterrupt"]
    assert recorder.recording.cells.status.tolist() == ["interrupted"]


def test_the_guide_s_package_is_found_by_every_recording(toy: Any, install: Any) -> None:
    (project,) = (tomllib.loads(text) for text in blocks(GUIDE, "toml"))
    install(project)
    names: dict[str, Any] = {"print": lambda *_: None}
    exec(python_blocks(GUIDE)[3], names)
    recording = names["recorded"].recording
    assert recording.dispatchers.framework.tolist() == ["toy"]
    assert "toy" in recording.metadata["probes"]
    assert not (recording.health.probe == "toy").any()


def test_a_probe_by_the_documented_protocol_alone_is_used(toy: Any, install: Any) -> None:
    """A package's probe need not know our base class."""
    hooks = importlib.import_module("kernelscope_toy").ToyProbe()
    toy.plain = lambda: SimpleNamespace(name="toy", **{
        row.split("(")[0]: getattr(hooks, row.split("(")[0]) for row in re.findall(r"^\| `(\w+\()", GUIDE.read_text(
            encoding="utf-8"), re.MULTILINE)})
    entries = {"kernelscope.probes": {"toy": "toy:plain"}}
    install({"project": {"name": "plain", "version": "1", "entry-points": entries}})
    with kernelscope.record("plain") as recorded:
        toy.Kernel("axpy").run((4,), (128,))
    assert recorded.recording.dispatchers.framework.tolist() == ["toy"]


@pytest.mark.parametrize(("entry", "said"), [
    ("nowhere:Probe", "ModuleNotFoundError: No module named 'nowhere'"),
    ("toy:Kernel", "TypeError"),
    ("fractions:Fraction", "TypeError: Fraction has no name, no install"),
    ("kernelscope.probes.nvtx:NvtxProbe", "ValueError: there is a probe called 'nvtx' already"),
])
def test_a_package_whose_probe_is_none_is_left_out(toy: Any, install: Any, entry: str, said: str) -> None:
    install({"project": {"name": "broken-toy", "version": "1", "entry-points": {"kernelscope.probes": {"sad": entry}}}})
    with kernelscope.record("plain") as recorded:
        pass
    (row,) = (row for row in recorded.recording.rows("health") if row["probe"] == "sad")
    assert row["status"] == "unavailable"
    assert row["message"].startswith(f"the probe of broken-toy is left out: {said}")
    assert row["fix"] == "pip install --upgrade broken-toy, or uninstall it"


def sections(page: Path) -> dict[str, str]:
    """The text under each heading of the second level."""
    _, *parts = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def parsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of a parser's verbs."""
    return {name: each for action in parser._actions if isinstance(action, argparse._SubParsersAction)
            for name, each in action.choices.items()}


def unmentioned(parser: argparse.ArgumentParser, text: str) -> list[str]:
    """The options of a parser and of its verbs that a text has under none of their names."""
    own = [action.option_strings for action in parser._actions if action.option_strings]
    missing = [names[-1] for names in own if "--help" not in names
               and not any(re.search(rf"{name}\b(?!-)", text) for name in names)]
    return missing + [name for each in parsers(parser).values() for name in unmentioned(each, text)]


def test_the_guide_of_the_command_line_has_every_verb_and_option() -> None:
    verbs, text = parsers(cli.parser_of()), sections(DOCS / "guides" / "command-line.md")
    assert sorted(text) == sorted([*verbs, "Exit codes"])
    assert [(verb, name) for verb, parser in verbs.items() for name in unmentioned(parser, text[verb])] == []


def test_the_guide_of_the_magics_has_every_word_and_option() -> None:
    text = (DOCS / "guides" / "notebook.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `%kernelscope (\w+)", text, re.MULTILINE) == list(verb.magic_verbs())
    one_cell = sections(DOCS / "guides" / "notebook.md")["One cell"]
    wanted = {option for action in cell.cell_parser()._actions for option in action.option_strings} - {"-h", "--help"}
    assert [option for option in sorted(wanted) if not re.search(rf"`{option}\b", one_cell)] == []
