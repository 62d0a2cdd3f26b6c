"""What the widgets have in common: no framework is needed, their state is small, a notebook saves no data."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ipywidgets
import nbformat
import pytest
from drawn_graphs import every_kind
from inspected import inspected
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

import kernelscope
from kernelscope.views.widget import FrontEnd, front_end

ROOT = Path(__file__).resolve().parents[2]
RECORDING = ROOT / "notebooks" / "recordings" / "threads.kscope"
VIEW = "application/vnd.jupyter.widget-view+json"
SHOW: dict[str, Callable[[], Any]] = {
    "timeline": lambda: kernelscope.timeline(kernelscope.load(RECORDING)),
    "inspector": lambda: kernelscope.inspect(inspected(3_000)),
    "graph": lambda: kernelscope.graph(every_kind()),
}


@pytest.fixture(autouse=True)
def no_widget_is_left() -> Iterator[None]:
    yield
    ipywidgets.Widget.close_all()


@pytest.mark.parametrize("name", SHOW)
def test_the_state_is_small_and_the_front_end_is_one_model(name: str) -> None:
    first, second = SHOW[name](), SHOW[name]()
    assert len(json.dumps({key: str(value) for key, value in first.get_state().items()})) < 12_000
    assert first.front_end is second.front_end
    assert first.front_end.source == front_end(name)
    assert first.get_state()["front_end"] == f"IPY_MODEL_{first.front_end.model_id}"
    ipywidgets.Widget.close_all()
    again = SHOW[name]().front_end
    assert isinstance(again, FrontEnd) and again is not first.front_end


def test_they_need_no_framework_and_no_kernel(tmp_path: Path) -> None:
    inspected().save(tmp_path / "inspected.kscope")
    every_kind().save(tmp_path / "graph.kscope")
    code = f"""
import sys
sys.modules.update(numba=None, cuda=None, cupti=None)
import kernelscope
print(type(kernelscope.timeline(kernelscope.load({str(RECORDING)!r}))).__name__)
shown = kernelscope.inspect({str(tmp_path / "inspected.kscope")!r}, "scale")
print(type(shown).__name__, shown.kernel, "def scale" in shown.twin()[1])
graph = kernelscope.graph(kernelscope.load({str(tmp_path / "graph.kscope")!r}))
print("axpy" in graph.to_svg(), "axpy" in graph.to_dot(), "axpy" in str(graph))
graph.to_html({str(tmp_path / "graph.html")!r})
kernelscope.inspect(3)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120,
                         env={"PATH": "/usr/bin:/bin"})
    assert ran.stdout == "TimelineWidget\nInspectorWidget demo.scale True\nTrue True True\n", ran.stderr
    assert "TypeError: a value of type int cannot be inspected: give a kernel made by @cuda.jit" in ran.stderr


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    """A notebook with two timelines, an inspector and a graph, executed and saved with its widgets' state."""
    folder = tmp_path_factory.mktemp("notebook")
    inspected(400).save(folder / "inspected.kscope")
    every_kind().save(folder / "graph.kscope")
    notebook = new_notebook(cells=[
        new_code_cell(f"import sys; sys.path.insert(0, {str(ROOT)!r})\nimport kernelscope\n"
                      f"recording = kernelscope.load({str(RECORDING)!r})\nkernelscope.timeline(recording)"),
        new_code_cell("from IPython.display import display\ndisplay(kernelscope.timeline(recording, height=200))"),
        new_code_cell("kernelscope.inspect('inspected.kscope')"),
        new_code_cell("kernelscope.graph(kernelscope.load('graph.kscope'))"),
    ])
    with pytest.MonkeyPatch.context() as patch:
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(folder / name))
        NotebookClient(notebook, timeout=120, kernel_name="python3", store_widget_state=True,
                       resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


@pytest.mark.slow
def test_a_saved_notebook_holds_static_pictures_and_no_data(executed: nbformat.NotebookNode) -> None:
    nbformat.validate(executed)
    pictures = []
    for cell in executed.cells:
        view, picture = cell.outputs
        assert [output.output_type for output in cell.outputs] == ["display_data", "display_data"]
        assert VIEW in view.data and VIEW not in picture.data
        pictures.append(picture.data)
    assert all("data:image/svg+xml;base64," in pictures[at]["text/html"] for at in (0, 1, 3))
    assert "demo.scale" in pictures[2]["text/html"]
    assert pictures[3]["text/plain"].startswith("graph 0 · 14 nodes")
    drawn, = re.findall(r'base64,([^"]*)"', pictures[3]["text/html"])
    assert b"reduce_blocks" in base64.b64decode(drawn)
    state = executed.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    kinds = [each["model_name"] for each in state.values()]
    assert (kinds.count("AnyModel"), kinds.count("WidgetModel")) == (4, 3)
    text = json.dumps(state)
    assert "demo.scale" not in text and "reduce_blocks" not in text
    assert len(text) < sum(len(front_end(name)) for name in SHOW) * 1.2 + 50_000


@pytest.mark.slow
def test_nbconvert_shows_the_static_pictures(executed: nbformat.NotebookNode) -> None:
    from nbconvert import HTMLExporter

    plain = nbformat.from_dict(json.loads(json.dumps(executed)))
    del plain.metadata["widgets"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        html, _ = HTMLExporter().from_notebook_node(plain)
    assert [str(each.message) for each in caught if "not able to be represented" in str(each.message)] == []
    assert html.count("data-ks-picture=") == 4
    assert html.count('alt="KernelScope timeline') == 2
