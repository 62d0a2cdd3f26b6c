"""`kernelscope graph`: a graph of a file as text, for Graphviz, as a picture and as a page."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from drawn_graphs import chain, every_kind, script

from kernelscope import load
from kernelscope.commands.cli import main
from kernelscope.views.graph.text import graph_text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return every_kind().save(tmp_path / "graph.kscope")


def test_text(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(file)]) == 0
    assert capsys.readouterr().out == graph_text(load(file)) + "\n"
    assert main(["graph", str(file), "0"]) == 0
    assert "reduce_blocks" in capsys.readouterr().out


def test_picture_and_page(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.svg"
    assert main(["graph", str(file), "--svg", str(target)]) == 0
    assert capsys.readouterr().out == f"wrote {target}\n"
    assert ElementTree.parse(target).getroot().tag.endswith("svg")
    page = tmp_path / "out.html"
    assert main(["graph", str(file), "--html", str(page)]) == 0
    assert capsys.readouterr().out == f"wrote {page}\n"
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_which_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = script()
    for name in ("first", "second"):
        made.graph_node(made.graph(), name=name)
    file = made.recording().save(tmp_path / "two.kscope")
    assert main(["graph", str(file)]) == 1
    assert "which graph? the recording has graphs 0 (1 node), 1 (1 node)" in capsys.readouterr().err
    assert main(["graph", str(file), "1"]) == 0
    assert "second" in capsys.readouterr().out
    assert main(["graph", str(file), "2"]) == 1
    assert "no graph 2; the recording has graphs" in capsys.readouterr().err


def test_a_recording_is_not_overwritten(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(file), "--svg", str(file)]) == 1
    assert "graph.kscope" in capsys.readouterr().err
    assert load(file).graphs.nodes.tolist() == [14]


def test_a_file_without_graphs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = script().recording().save(tmp_path / "none.kscope")
    assert main(["graph", str(file)]) == 1
    assert "has no graph" in capsys.readouterr().err
    assert main(["graph", str(chain(3).save(tmp_path / "chain.kscope"))]) == 0
