"""``%kernelscope whatif graph [CELL]`` in a real kernel: which cell is run again, what is shown, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

SETUP = "runs = 0\nmine = cuda.to_device(np.zeros(8, np.float32))"
CELL = "%%kernelscope -q\nruns += 1\nfor _ in range(4):\n    axpy[2, 32](mine, 2.0, mine)"
HOOKED = """
from numba.cuda.cudadrv import driver as numbas_driver
[function.__qualname__ for owner in (dispatcher.CUDADispatcher, numbas_driver.Context, numbas_driver.Stream,
                                     numbas_driver.Event, numbas_driver)
 for function in vars(owner).values() if 'kernelscope' in str(getattr(function, '__module__', ''))]
"""


@pytest.fixture(autouse=True)
def prepared(notebook: Any) -> Iterator[None]:
    notebook.ok(SETUP)
    yield
    assert notebook.ok(HOOKED).values[-1] == "[]"


def refused(ran: Any) -> str:
    """The one line of a UsageError."""
    assert ran.status == "error" or "UsageError" in ran.stderr, ran.messages
    return ran.stderr


@pytest.mark.slow
def test_the_newest_cell(notebook: Any) -> None:
    notebook.ok(CELL)
    ran = notebook.ok("%kernelscope whatif graph")
    assert ran.stdout.startswith("kernelscope: cell ")
    assert "is run again, in this notebook's namespace" in ran.stdout
    assert "were a graph: 4 launches of axpy" in ran.card
    assert "dry run: kernels did not execute: there are no times and no results to compare" in ran.card
    assert "Captured and instantiated: 4 nodes, on 1 array of 32 B." in ran.card
    assert not [claim for claim in ("equal", "faster", "breaks even", "saved") if claim in ran.card]
    assert "was run again once, in this notebook's namespace" in ran.card
    assert notebook.value("runs") == "2"


def test_a_cell_by_its_name_and_number(notebook: Any) -> None:
    notebook.ok(CELL.replace("-q", "-q -n first"))
    number = notebook.value("len(In) - 2")
    notebook.ok("%%kernelscope -q\naxpy[1, 1](mine, 1.0, mine)")
    for wanted in ("first", '"first"', number):
        assert "4 launches of axpy" in notebook.ok(f"%kernelscope whatif graph {wanted}").card
    assert "1 launch of axpy" in notebook.ok("%kernelscope whatif graph").card
    assert notebook.value("runs") == "4"


def test_cells_with_magics_and_kernels_of_their_own(notebook: Any) -> None:
    notebook.ok("%%kernelscope -q\n%env KERNELSCOPE_A_TEST=1\n@cuda.jit(cache=True)\ndef fresh(x):\n    x[0] = 1\n"
                "fresh[1, 1](mine)\nfresh[1, 1](mine)\ncuda.synchronize()\nmine.copy_to_host()")
    ran = notebook.ok("%kernelscope whatif graph")
    assert "2 launches of fresh" in ran.card
    assert "after the last: synchronize at line 8, copy_to_host at line 9." in ran.card


def test_one_round_of_a_loop(notebook: Any) -> None:
    notebook.ok("more = cuda.to_device(np.zeros(8, np.float32))")
    notebook.ok("%%kernelscope -q -n loop\nfor _ in range(40):\n    axpy[2, 32](mine, 2.0, mine)\n"
                "    axpy[4, 32](more, 2.0, mine)")
    number = notebook.value("len(In) - 2")
    shown = notebook.ok("%kernelscope whatif graph").card
    assert f"What if a round of cell {number} were a graph: 2 launches of axpy" in shown
    assert f"Cell {number} made 40 such rounds one after another" in shown


def test_where_nothing_was_recorded(notebook: Any) -> None:
    assert "no recorded cell" in refused(notebook.run("%kernelscope whatif graph"))


def test_what_a_graph_cannot_hold_is_one_line(notebook: Any) -> None:
    notebook.ok("%%kernelscope -q\naxpy[1, 1](mine, 1.0, mine)\nother = cuda.device_array(3)\n"
                "axpy[1, 1](mine, 1.0, mine)")
    said = refused(notebook.run("%kernelscope whatif graph"))
    assert "cannot be a graph as it is: device_array at line 3 allocates memory; that must come before" in said
    assert len(said.strip().splitlines()) == 1
    assert "no recorded cell '99'; known:" in refused(notebook.run("%kernelscope whatif graph 99"))


def test_errors_of_the_cell_are_its_own(notebook: Any) -> None:
    notebook.ok("%%kernelscope -q\naxpy[1, 1](mine, 1.0, mine)\nassert not runs\nint(wrong if runs else 7)")
    notebook.ok("runs, wrong = 0, 'x'")
    notebook.ok("%kernelscope whatif graph")
    notebook.ok("%%kernelscope -q\nint(wrong) if runs else axpy[1, 1](mine, 1.0, mine)")
    ran = notebook.run("runs = 1\n%kernelscope whatif graph")
    assert "ValueError: invalid literal for int()" in ran.traceback
    assert "int(wrong)" in ran.traceback


def test_an_interruption(notebook: Any) -> None:
    notebook.ok("%%kernelscope -q\naxpy[1, 1](mine, 1.0, mine)\n"
                "if runs:\n    print('ready', flush=True)\n    time.sleep(30)")
    notebook.ok("runs = 1")
    ran = notebook.run("%kernelscope whatif graph", interrupt=True)
    assert "KeyboardInterrupt" in ran.traceback
    captures = "kernelscope.dryrun.counters().calls.get('cuStreamBeginCapture', 0)"
    ends = "kernelscope.dryrun.counters().calls.get('cuStreamEndCapture', 0)"
    assert notebook.value(captures) == notebook.value(ends)
    notebook.ok("runs = 0")
    assert "1 launch of axpy" in notebook.ok("%kernelscope whatif graph").card


def test_it_is_not_recorded_itself(notebook: Any) -> None:
    notebook.ok(CELL)
    notebook.ok("%kernelscope on -q")
    ran = notebook.ok("%kernelscope whatif graph")
    assert "A recording was under way" not in ran.card
    notebook.ok("%kernelscope off")
