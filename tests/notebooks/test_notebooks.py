"""Every notebook runs from top to bottom in a real kernel, and its cards say what it tells."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kernelscope
from kernelscope import studies

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
#: These show what was measured on a GPU, and are committed with their outputs.
STUDIES = {"eager_vs_graph", "launch_overhead"}
# What a kernel is as it starts: nothing is defined, loaded or recorded.
BEGIN = """
%reset -f
__spec__ = None
import os
get_ipython().extension_manager.unload_extension("kernelscope")
get_ipython().meta.clear()
os.chdir({folder!r})
import multiprocessing.process
multiprocessing.process.ORIGINAL_DIR = os.getcwd()
os.environ.pop("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", None)
del os, multiprocessing
"""

Execute = Callable[[str], Any]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A kernel on the dry run, with folders of its own for everything that it writes."""
    import nbformat  # half a second, in which its schemas are compiled
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("jupyter")
    environment = {**os.environ, "KERNELSCOPE_DRYRUN": "1", "PYTHONPATH": str(FOLDER.parent),
                   "IPYTHONDIR": str(folder / "ip")}
    environment.pop("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", None)
    client = NotebookClient(nbformat.v4.new_notebook(), timeout=600, kernel_name="python3")
    with client.setup_kernel(env=environment):
        yield client


@pytest.fixture
def execute(client: Any, tmp_path: Path) -> Execute:
    """Run a notebook in a folder of its own, in a kernel in which nothing is left of the notebook before."""
    import nbformat

    (tmp_path / "recordings").symlink_to(FOLDER / "recordings")

    def run(name: str) -> Any:
        begin = nbformat.v4.new_code_cell(BEGIN.format(folder=str(tmp_path)))
        for notebook in (nbformat.v4.new_notebook(cells=[begin]), nbformat.read(FOLDER / f"{name}.ipynb", 4)):
            client.nb = notebook
            client.reset_execution_trackers()
            for place, cell in enumerate(notebook.cells):
                client.execute_cell(cell, place)
        return client.nb

    return run


def outputs(notebook: Any, mime: str) -> list[str]:
    """All outputs of one type, in order; lines are joined."""
    found = [output["data"][mime] for cell in notebook["cells"] if cell["cell_type"] == "code"
             for output in cell["outputs"] if mime in output.get("data", {})]
    return ["".join(each) for each in found]


def printed(notebook: Any, stream: str) -> str:
    """Everything written to a stream."""
    return "".join(text for cell in notebook["cells"] if cell["cell_type"] == "code"
                   for output in cell["outputs"] if output.get("name") == stream for text in output["text"])


@pytest.mark.parametrize("name", [path.stem for path in NOTEBOOKS])
def test_notebooks_are_committed_without_outputs_and_studies_with_theirs(name: str) -> None:
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert os.sep + "home" not in json.dumps(cells)
    if name not in STUDIES:
        assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
        return
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1)), "executed from top to bottom"
    for cell in cells:
        # What measures again is off, and shows nothing.
        assert bool(cell["outputs"]) != ("MEASURE" in "".join(cell["source"])), cell["source"]
        assert all(output["output_type"] != "error" for output in cell["outputs"])
    assert sum("application/vnd.plotly.v1+json" in output.get("data", {})
               for cell in cells for output in cell["outputs"]) >= 2
    assert printed(notebook, "stderr") == ""


@pytest.mark.slow
def test_cells_caches_and_lcs(execute: Execute) -> None:
    """The first of all: what it sets in the environment is read where numba is imported."""
    notebook = execute("01_cells_caches_lcs")
    values = outputs(notebook, "text/plain")
    everything = "\n".join(values) + printed(notebook, "stdout")
    assert "['compiled', 'memory']" in everything, everything
    assert '"unsafe": {"options": {"fastmath"' in everything
    blocks = next(text for text in values if "blockdim_x" in text)
    assert [line.split()[-1] for line in blocks.splitlines()[1:]] == [
        "compiled", "compiled", "memory", "memory", "compiled"]
    assert printed(notebook, "stderr") == ""


@pytest.mark.slow
def test_the_quickstart(execute: Execute) -> None:
    notebook = execute("00_quickstart")
    cards = [text for text in outputs(notebook, "text/plain") if "Kernels: " in text]
    assert len(cards) == 3
    first, second, third = cards
    assert "first launches" in first
    assert "100 launches" in first
    assert "99 found in memory" in first
    assert "float32 → float64" in second
    assert "layout C → A" in second
    assert "axpy" in third
    assert "stencil" in third
    for card in (*cards, *[text for text in outputs(notebook, "text/html") if "By phase" in text]):
        assert "dry run: kernels did not execute" in card
    assert printed(notebook, "stderr") == ""


@pytest.mark.slow
def test_the_gpu_and_the_timeline(execute: Execute, tmp_path: Path) -> None:
    notebook = execute("02_gpu_and_timeline")
    html = outputs(notebook, "text/html")
    assert "The GPU worked" in html[0]
    assert any("<img" in text and "svg" in text for text in html), "the timeline's picture"
    assert len(outputs(notebook, "application/vnd.jupyter.widget-view+json")) == 1
    text = "\n".join(outputs(notebook, "text/plain"))
    assert "compile" in text
    assert "torch step" in text
    assert (tmp_path / "gpu.html").stat().st_size > 100_000
    assert (tmp_path / "gpu.json").stat().st_size > 100_000


@pytest.mark.slow
def test_specializations(execute: Execute) -> None:
    notebook = execute("03_specializations")
    html, text = "\n".join(outputs(notebook, "text/html")), "\n".join(outputs(notebook, "text/plain"))
    for words in ("disk_unsafe", "new_scalar", "horner", "SASS of #1", "@cuda.jit(max_registers=24, lineinfo=True)"):
        assert words in html
    assert "disk_unsafe" in text
    assert "of 17 compiles" in text
    assert len(outputs(notebook, "application/vnd.jupyter.widget-view+json")) == 2
    assert "dry run" in outputs(notebook, "text/plain")[-1]


@pytest.mark.slow
def test_graphs(execute: Execute) -> None:
    notebook = execute("04_graphs")
    shown = [" ".join(text.split()) for text in outputs(notebook, "text/plain") if text]  # a live widget's is empty
    recorded, picture, table, _, nodes, once, each, of_nodes, again, eager, whatif = shown
    assert "80 launches, 169 captured, 82 graph launches, " in recorded
    assert "20 with nothing changed, 1 with another launch configuration or size" in recorded
    assert "The GPU worked " in recorded
    assert "1 update of graph 0 was refused by the driver" in recorded
    assert "instantiated 21 times, launched 71 times" in picture
    assert "clamp" in picture
    assert "execute_p50_ns" in table
    assert nodes.split().count("71") == 7, "runs of each kernel"
    assert "Graphs: 1 graph, 1 build, 100 launches" in once
    assert "8 launches captured in 1 capture" in once
    assert "19 times nothing had changed, so reuse the executable graph" in each
    assert "2 copies, 2 kernels" in of_nodes
    assert "axpy" in again
    assert "20 launches, " in eager
    assert "20 launches of axpy" in whatif
    assert "Captured and instantiated: 20 nodes" in whatif
    assert len(outputs(notebook, "application/vnd.jupyter.widget-view+json")) == 2
    assert printed(notebook, "stderr") == ""


@pytest.mark.slow
def test_lines(execute: Execute) -> None:
    notebook = execute("05_lines")
    simulation, training = (kernelscope.load(FOLDER / "recordings" / f"lines_{name}.kscope")
                            for name in ("simulation", "training"))
    said, shown = printed(notebook, "stdout"), outputs(notebook, "text/plain")
    assert "diffusion.heat[diffusion.grid(now), diffusion.BLOCK](now, sources)" in said and "loss.backward()" in said
    rows = {(row.file, row.line): row for row in simulation.by_line().itertuples()}
    cold, warm = rows["In[2]", 4], rows["In[3]", 4]
    assert (cold.launches, warm.launches) == (200, 200)
    assert cold.copied_bytes > 200 * 2 * 4_000_000 and warm.copied_bytes == 0
    assert {row.function for (file, _), row in rows.items() if file == "diffusion.py"} == {"step", "hottest"}
    named = training.by_line().groupby("text")[["gpu_ns", "wait_ns"]].sum()
    assert (named.gpu_ns[["loss.backward()", "optimizer.step()"]] > 0).all()
    assert named.wait_ns["losses.append(loss.item())"] > named.wait_ns["loss.backward()"]
    assert training.activities.line_id.notna().all()
    assert shown[-1].count("twice") == 2, "the lines of the notebook's own function"
    assert printed(notebook, "stderr") == ""


@pytest.mark.slow
def test_many_workers(execute: Execute) -> None:
    notebook = execute("06_many_workers")
    training = kernelscope.load(FOLDER / "recordings" / "workers_training.kscope")
    shown, cards = outputs(notebook, "text/plain"), outputs(notebook, "text/html")
    ranks = training.by_process().set_index("rank")
    assert ranks.index.tolist() == [0, 1, 2, 3] and (ranks.launches == 3_720).all() and (ranks.status == "ok").all()
    assert ranks.busy_ns.idxmax() == 3 and ranks.busy_ns[3] > 1.5 * ranks.busy_ns[:3].max()
    assert "slowest: rank 3" in cards[0] and "4 processes compiled disturb" in cards[0]
    assert training.compilations.start_ns.max() < training.compilations.end_ns.min(), "all at the same time"
    lines = training.by_line().set_index("text")
    assert lines.gpu_ns.idxmax() == "loss.backward()"
    pool = shown[-1].splitlines()[1:]
    assert sum(int(row.split()[1]) for row in pool if row.split()[0].isdigit()) == 150, "whichever worker took which"
    assert printed(notebook, "stderr") == ""


@pytest.mark.slow
def test_triton_and_torch(execute: Execute) -> None:
    notebook = execute("07_triton_and_torch")
    compiles, tuned, compiled, training, together = (
        kernelscope.load(FOLDER / "recordings" / f"{name}.kscope") for name in (
            "triton_compiles", "triton_autotune", "torch_compile", "torch_training", "triton_torch_numba"))
    first, _, autotuned, of_torch, mixed = (
        card for card in outputs(notebook, "text/html") if "KernelScope" in card)  # the second is the inspector
    shown = outputs(notebook, "text/plain")
    assert "is 4095, not divisible by 16" in first and "is 1, which Triton compiles as a constant" in first
    assert compiles.select(cell=1).compilations.reason_code.tolist() == ["first_use"], "the fix works"
    median_ns = compiles.launches.groupby("specialization_id").execute_ns.median()
    assert median_ns[0] < 900 and median_ns[3] > 1_000, "what the fix costs, as the notebook says"
    assert compiles.table("code").kind.value_counts().to_dict() == {
        "source": 2, **dict.fromkeys(("ttir", "ttgir", "llvm", "ptx", "sass"), 4)}
    assert "4 configurations (1 failed)" in autotuned and "is 2048; the nearest key that was tuned has" in autotuned
    best = tuned.launches[tuned.launches.build_id == 0].groupby("specialization_id").execute_ns.median().idxmin()
    assert tuned.launches[tuned.launches.build_id.isna()].specialization_id.ne(best).all(), "the best was missed"
    assert "1 graph break: line 8: a branch on the value of a tensor" in of_torch
    assert "CUDA graph recorded again: static input data pointer changed" in of_torch
    lines = training.by_line().set_index("text")
    assert lines.gpu_ns.idxmax() == "loss.backward()" and any("aten::addmm" in text for text in shown)
    assert {(row["framework"], row["module"]) for row in together.rows("dispatchers")} >= {
        ("triton", "axpy"), ("numba-cuda", "__main__"), ("driver", "PyTorch"), ("driver", "cuBLAS")}
    assert "40 launches" in mixed and (together.activities.kind == "kernel").sum() == 40
    assert printed(notebook, "stderr") == ""


@pytest.mark.slow
def test_the_launch_overhead_study(execute: Execute) -> None:
    notebook = execute("launch_overhead")
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
    assert "4 args + recorder (phases)" in printed(notebook, "stdout")
    assert len(outputs(notebook, "application/vnd.plotly.v1+json")) == 4
    assert printed(notebook, "stderr") == ""


@pytest.mark.slow
def test_eager_against_a_graph(execute: Execute) -> None:
    notebook = execute("eager_vs_graph")
    said = printed(notebook, "stdout")
    saved = json.loads((FOLDER / "recordings" / "eager_vs_graph.json").read_text(encoding="utf-8"))
    assert ("DRY RUN" in said) == saved["is_dry_run"]
    assert saved["gpu"]["name"] in said
    assert "each further kernel costs" in said
    assert "a graph is faster from" in said
    assert len(outputs(notebook, "application/vnd.plotly.v1+json")) == 2
    assert printed(notebook, "stderr") == ""


@pytest.mark.slow
def test_inside_the_kernel(execute: Execute) -> None:
    notebook = execute("08_inside_the_kernel")
    said = " ".join(" ".join(outputs(notebook, "text/plain")).split())
    for told in ("1,073,741,824 double-precision operations", "the sectors too many are at line 7", "9.03"):
        assert told in said, told
    stalls = kernelscope.load(FOLDER / "recordings" / "inside.kscope").by_stall()
    waits = stalls.sort_values("share").groupby("kernel").stall.last()
    assert waits[["single", "coalesced", "tiled"]].tolist() == ["lg_throttle", "math_pipe_throttle", "mio_throttle"]
    assert len(outputs(notebook, "application/vnd.plotly.v1+json")) == 1, "the roofline"
    assert printed(notebook, "stderr") == ""
