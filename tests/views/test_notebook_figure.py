"""Figures in a notebook: in Plotly's media type and as HTML, with plotly.js once a session."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio
import pytest

from kernelscope.views import notebook_figure
from kernelscope.views.charts import figure_of, sentence
from kernelscope.views.notebook_figure import MEDIA_TYPE, NotebookFigure

LIBRARY = 'data-kind="plotly"'


class Shell:
    """A notebook's shell: what was published in it, and which cell runs."""

    def __init__(self) -> None:
        self.published: list[dict[str, Any]] = []
        self.display_pub = SimpleNamespace(publish=lambda data: self.published.append(data))
        self.display_formatter = SimpleNamespace(active_types=["text/plain", "text/html"])
        self.execution_count = 0
        self.cell: str | None = None

    def get_parent(self) -> dict[str, Any]:
        return {"metadata": {} if self.cell is None else {"cellId": self.cell}}

    def run(self, cell: str | None, *figures: go.Figure) -> list[bool]:
        """Show figures in a cell; for each, whether plotly.js came with it."""
        self.cell, self.execution_count, before = cell, self.execution_count + 1, len(self.published)
        for each in figures:
            each._ipython_display_()
        return [LIBRARY in each["text/html"].partition("<script>")[0] for each in self.published[before:]]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    made = Shell()
    monkeypatch.setattr(notebook_figure, "notebook", lambda: made)
    monkeypatch.setattr(NotebookFigure, "_library", None)
    monkeypatch.setattr(pio.renderers, "default", "plotly_mimetype")
    return made


def test_a_figure_is_published_for_a_notebook_and_for_what_is_made_of_it(shell: Shell) -> None:
    assert shell.run(None, sentence("Launch <overhead>", "There is nothing to show.")) == [True]
    (data,) = shell.published
    assert sorted(data) == [MEDIA_TYPE, "text/html", "text/plain"]
    assert data["text/plain"] == "figure: Launch <overhead>"
    assert data[MEDIA_TYPE]["layout"]["annotations"][0]["text"] == "There is nothing to show."
    assert "There is nothing to show." in data["text/html"] and len(data["text/html"]) < 3_000_000
    assert "https://cdn" not in data["text/html"]


def test_plotly_js_is_in_one_output_of_a_session(shell: Shell) -> None:
    figure = figure_of("one", 100)
    assert shell.run(None, figure, figure) == [True, False]
    assert shell.run(None, figure) == [False]
    assert len(shell.published[-1]["text/html"]) < 20_000


def test_a_cell_that_has_plotly_js_has_it_again_when_it_is_run_again(shell: Shell) -> None:
    figure = figure_of("one", 100)
    assert shell.run("first", figure, figure) == [True, False]
    assert shell.run("second", figure) == [False]
    assert shell.run("first", figure, figure) == [True, False]
    assert shell.run("second", figure) == [False]


def test_another_session_has_its_own(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    figure, other = figure_of("one", 100), Shell()
    shell.run(None, figure)
    monkeypatch.setattr(notebook_figure, "notebook", lambda: other)
    assert other.run(None, figure) == [True]


@pytest.mark.parametrize(("renderer", "is_ours"), [
    ("plotly_mimetype", True), ("plotly_mimetype+notebook", True), ("vscode", True), ("jupyterlab", True),
    ("notebook", False), ("json", False), ("plotly_mimetype+json", False), ("", False),
])
def test_a_renderer_that_somebody_has_chosen_is_used(
    renderer: str, is_ours: bool, shell: Shell, monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[object] = []
    monkeypatch.setattr(pio.renderers, "default", renderer)
    monkeypatch.setattr(go.Figure, "_ipython_display_", lambda figure: shown.append(figure))
    assert shell.run(None, figure_of("one", 100)) == [True] * is_ours
    assert len(shown) == (not is_ours)


def test_without_a_notebook_it_is_plotly_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []
    monkeypatch.setattr(notebook_figure, "notebook", lambda: None)
    monkeypatch.setattr(go.Figure, "_ipython_display_", lambda figure: shown.append(figure))
    figure_of("one", 100)._ipython_display_()
    assert len(shown) == 1


def test_it_is_a_figure_like_any_other() -> None:
    figure = figure_of("one", 100)
    figure.add_scatter(x=[1, 2], y=[3, 4])
    assert isinstance(figure, go.Figure)
    for again in (copy.deepcopy(figure), pickle.loads(pickle.dumps(figure)), go.Figure(figure)):
        assert again.to_dict() == figure.to_dict()
