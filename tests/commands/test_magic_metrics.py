"""`%kernelscope metrics`: a cell is run again only where its last run ended well and counters can be read."""

from __future__ import annotations

from typing import Any

import pytest

import kernelscope
from kernelscope.features.metrics.command import require_counters

CELL = "runs += 1\naxpy[2, 32](a, 2.0, a)"
SAYS = "%kernelscope metrics axpy"
DRY = "the dry run has no GPU whose counters could be read"


@pytest.fixture(autouse=True)
def nothing_ran(request: pytest.FixtureRequest) -> None:
    if "notebook" in request.fixturenames:
        request.getfixturevalue("notebook").ok("runs = 0")


def refused(notebook: Any, line: str) -> str:
    ran = notebook.run(line)
    assert ran.status == "error" and ran.stdout == "", "it does not say that a cell is run again"
    return " ".join(ran.stderr.split() or ran.traceback.split())


def test_in_a_dry_run_nothing_is_run(notebook: Any) -> None:
    notebook.ok(f"%%kernelscope -q\n{CELL}")
    assert DRY in refused(notebook, SAYS)
    assert notebook.ok("print(runs)").stdout == "1\n"


def test_a_cell_whose_last_run_failed_is_not_run_again(notebook: Any) -> None:
    notebook.run(f"%%kernelscope -q -n step\n{CELL}\nraise ValueError('no data')")
    said = refused(notebook, SAYS)
    assert "step did not end well (error: ValueError: no data)" in said and "--failed runs it even so" in said
    assert DRY in refused(notebook, f"{SAYS} --failed"), "asked for, it is run where there are counters"
    assert notebook.ok("print(runs)").stdout == "1\n"


def test_what_counts_is_the_last_run_of_the_same_code(notebook: Any) -> None:
    cell = f"%%kernelscope -q\n{CELL}\nif runs == 2: raise ValueError('the second time')"
    notebook.ok(cell)
    notebook.run(cell)
    assert "the second time" in refused(notebook, SAYS)
    notebook.ok(cell)
    assert DRY in refused(notebook, SAYS)
    assert notebook.ok("print(runs)").stdout == "3\n"


def test_in_python_nothing_is_called_where_there_are_no_counters() -> None:
    called: list[int] = []
    with pytest.raises(kernelscope.CountersError, match="nothing was run"):
        kernelscope.metrics(called.append, 1)
    with pytest.raises(kernelscope.CountersError, match="dry run"):
        require_counters()
    assert called == []
