"""Every notebook runs from top to bottom in a real kernel, and its cards say what it tells."""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from kernelscope import studies

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
#: These show what was measured on a GPU, and are committed with their outputs.
STUDIES = {"eager_vs_graph", "launch_overhead"}


def execute(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> nbformat.NotebookNode:
    """Run a notebook on the dry run, with folders of its own for everything that it writes."""
    for name, value in {"KERNELSCOPE_DRYRUN": "1", "PYTHONPATH": str(FOLDER.parent), "IPYTHONDIR": str(folder / "ip"),
                        "JUPYTER_RUNTIME_DIR": str(folder / "runtime")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", raising=False)
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def outputs(notebook: nbformat.NotebookNode, mime: str) -> list[str]:
    """All outputs of one type, in order."""
    return [output["data"][mime] for cell in notebook.cells if cell.cell_type == "code"
            for output in cell.outputs if mime in output.get("data", {})]


def printed(notebook: nbformat.NotebookNode, stream: str) -> str:
    """Everything written to a stream."""
    return "".join(output["text"] for cell in notebook.cells if cell.cell_type == "code"
                   for output in cell.outputs if output.get("name") == stream)


def test_there_are_notebooks():
    assert [path.stem for path in NOTEBOOKS] == [
        "00_quickstart", "01_cells_caches_lcs", "02_gpu_and_timeline", "03_specializations", "04_graphs",
        *sorted(STUDIES)]


@pytest.mark.parametrize("path", [path for path in NOTEBOOKS if path.stem not in STUDIES], ids=lambda path: path.stem)
def test_notebooks_are_committed_without_outputs(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
        assert os.sep + "home" not in cell.source


@pytest.mark.slow
def test_the_quickstart(tmp_path, monkeypatch):
    notebook = execute(FOLDER / "00_quickstart.ipynb", tmp_path, monkeypatch)
    cards = [text for text in outputs(notebook, "text/plain") if "Kernels by host time" in text]
    assert len(cards) == 3
    first, second, third = cards
    assert "first launches" in first
    assert "Launches: 100" in first
    assert "Found in memory: 99" in first
    assert "array(float64, 1d, C)" in second
    assert "array(float32, 1d, A)" in second
    assert "axpy" in third
    assert "stencil" in third
    assert "host arrays are copied in" in third
    for card in (*cards, *[text for text in outputs(notebook, "text/html") if "By phase" in text]):
        assert "dry run: kernels did not execute" in card
    assert printed(notebook, "stderr") == "", printed(notebook, "stderr")
    assert "first launches" in printed(notebook, "stdout") + "".join(outputs(notebook, "text/plain"))


@pytest.mark.slow
def test_cells_caches_and_lcs(tmp_path, monkeypatch):
    notebook = execute(FOLDER / "01_cells_caches_lcs.ipynb", tmp_path, monkeypatch)
    values = outputs(notebook, "text/plain")
    everything = "\n".join(values) + printed(notebook, "stdout")
    assert "['compiled', 'memory']" in everything, everything
    assert '"unsafe": {"options": {"fastmath"' in everything
    blocks = next(text for text in values if "blockdim_x" in text)
    assert [line.split()[-1] for line in blocks.splitlines()[1:]] == [
        "compiled", "compiled", "memory", "memory", "compiled"]
    assert printed(notebook, "stderr") == "", printed(notebook, "stderr")


@pytest.mark.slow
def test_the_gpu_and_the_timeline(tmp_path, monkeypatch):
    (tmp_path / "recordings").symlink_to(FOLDER / "recordings")
    notebook = execute(FOLDER / "02_gpu_and_timeline.ipynb", tmp_path, monkeypatch)
    html = outputs(notebook, "text/html")
    assert "GPU busy" in html[0]
    assert any("<img" in text and "svg" in text for text in html), "the timeline's picture"
    assert len(outputs(notebook, "application/vnd.jupyter.widget-view+json")) == 1
    text = "\n".join(outputs(notebook, "text/plain"))
    assert "compile" in text
    assert "torch step" in text
    assert (tmp_path / "gpu.html").stat().st_size > 100_000
    assert (tmp_path / "gpu.json").stat().st_size > 100_000


@pytest.mark.slow
def test_specializations(tmp_path, monkeypatch):
    (tmp_path / "recordings").symlink_to(FOLDER / "recordings")
    notebook = execute(FOLDER / "03_specializations.ipynb", tmp_path, monkeypatch)
    html, text = "\n".join(outputs(notebook, "text/html")), "\n".join(outputs(notebook, "text/plain"))
    for words in ("disk_unsafe", "new_scalar", "horner", "SASS of #1", "@cuda.jit(max_registers=24, lineinfo=True)"):
        assert words in html
    assert "disk_unsafe" in text
    assert "of 17 compiles" in text
    assert len(outputs(notebook, "application/vnd.jupyter.widget-view+json")) == 2
    assert "dry run" in outputs(notebook, "text/plain")[-1]


@pytest.mark.slow
def test_graphs(tmp_path, monkeypatch):
    (tmp_path / "recordings").symlink_to(FOLDER / "recordings")
    notebook = execute(FOLDER / "04_graphs.ipynb", tmp_path, monkeypatch)
    shown = [" ".join(text.split()) for text in outputs(notebook, "text/plain") if text]  # a live widget's is empty
    recorded, picture, table, _, nodes, once, each, of_nodes, again, eager, whatif = shown
    assert "Launches: 80 (4 configurations, 169 captured, 82 graph launches)" in recorded
    assert "20 with nothing changed, 1 with another launch configuration or size" in recorded
    assert "GPU busy" in recorded
    assert "1 update of graph 0 was refused by the driver" in recorded
    assert "instantiated 21 times, launched 71 times" in picture
    assert "clamp" in picture
    assert "execute_p50_ns" in table
    assert nodes.split().count("71") == 7, "runs of each kernel"
    assert "Graphs (1 graph, 1 build, 100 launches" in once
    assert "8 launches captured in 1 capture" in once
    assert "19 times nothing had changed, so reuse the executable graph" in each
    assert "2 copies, 2 kernels" in of_nodes
    assert "axpy" in again
    assert "Launches: 20 (1 configuration)" in eager
    assert "20 launches of axpy" in whatif
    assert "Captured and instantiated: 20 nodes" in whatif
    assert len(outputs(notebook, "application/vnd.jupyter.widget-view+json")) == 2
    assert printed(notebook, "stderr") == "", printed(notebook, "stderr")


@pytest.mark.parametrize("name", sorted(STUDIES))
def test_studies_are_committed_with_their_outputs(name):
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "executed from top to bottom"
    for cell in cells:
        # What measures again is off, and shows nothing.
        assert bool(cell.outputs) != ("MEASURE" in cell.source), cell.source
        assert all(output.output_type != "error" for output in cell.outputs)
        assert os.sep + "home" not in cell.source + str(cell.outputs)
    figures = outputs(notebook, "application/vnd.plotly.v1+json")
    assert len(figures) >= 2
    assert printed(notebook, "stderr") == ""


@pytest.mark.slow
def test_the_launch_overhead_study(tmp_path, monkeypatch):
    (tmp_path / "recordings").symlink_to(FOLDER / "recordings")
    notebook = execute(FOLDER / "launch_overhead.ipynb", tmp_path, monkeypatch)
    cards, texts = outputs(notebook, "text/html"), outputs(notebook, "text/plain")
    saved = studies.load(FOLDER / "recordings" / "launch_overhead.json")
    labels = [target.label for target in saved.targets]
    assert len(labels) == 3
    assert all(label in cards[0] and label in texts[0] for label in labels)
    assert "Launch overhead (us/launch):" in texts[0]
    table = next(text for text in texts if "verdict again" in text)
    assert table.count("True") == 10, "two targets and five cases, and both studies agree within their intervals"
    assert any("Anatomy of a launch" in text for text in texts)
    assert any("explicit stream" in text and "20 launches" in text for text in texts)
    assert "4 args + native recorder (phases)" in printed(notebook, "stdout")
    assert len(outputs(notebook, "application/vnd.plotly.v1+json")) == 4
    assert printed(notebook, "stderr") == "", printed(notebook, "stderr")


@pytest.mark.slow
def test_eager_against_a_graph(tmp_path, monkeypatch):
    (tmp_path / "recordings").symlink_to(FOLDER / "recordings")
    notebook = execute(FOLDER / "eager_vs_graph.ipynb", tmp_path, monkeypatch)
    said = printed(notebook, "stdout")
    saved = json.loads((FOLDER / "recordings" / "eager_vs_graph.json").read_text(encoding="utf-8"))
    assert ("DRY RUN" in said) == saved["is_dry_run"]
    assert saved["gpu"]["name"] in said
    assert "each further kernel costs" in said
    assert "a graph is faster from" in said
    assert len(outputs(notebook, "application/vnd.plotly.v1+json")) == 2
    assert printed(notebook, "stderr") == "", printed(notebook, "stderr")
