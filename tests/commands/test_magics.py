"""The sub-commands of `%kernelscope`, and the extension's way in and out, in a real kernel."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

LAUNCH = "axpy[2, 32](a, 2.0, a)"
HELPERS = Path(__file__).resolve().parents[1] / "helpers"


def test_status(notebook: Any) -> None:
    ran = notebook.ok("%kernelscope")
    assert ran.stdout.count("\n") == 1
    assert "records cells that begin with %%kernelscope; 0 recordings" in ran.stdout
    assert "%kernelscope help" in ran.stdout
    notebook.ok(f"%%kernelscope -q\n{LAUNCH}")
    text = notebook.ok("%kernelscope status").stdout
    assert "1 recording with 1 launch" in text
    assert "dry run: kernels do not execute" in text
    for options, said in (("--detail launch", "detail launch"), ("-q", "detail phases, no cards"),
                          ("--code", "detail phases, with code"), ("--mode ring", "detail phases, mode ring")):
        notebook.ok(f"%kernelscope on {options}")
        assert f"every cell ({said})" in notebook.ok("%kernelscope status").stdout


_KERNEL = "@cuda.jit\ndef typed_here(x):\n    x[0] = 1  # a comment\n\ntyped_here[1, 1](a)"
_SHOW_CODE = """
rows = _kernelscope.rows("code")
source = [row for row in rows if row["kind"] == "source"]
print(sorted({row["kind"] for row in rows} - {"sass"}), _kernelscope.metadata["code"])  # a busy machine leaves it out
print(repr(source[0]["text"]) if source else None, source[0]["lineno"] if source else None)
print([row["filename"][:3] for row in _kernelscope.rows("dispatchers")])
"""


def test_code_of_kernels_in_cells(notebook: Any) -> None:
    notebook.ok(f"%%kernelscope -q --code\n{_KERNEL}")
    kinds, source, file = notebook.ok(_SHOW_CODE).stdout.splitlines()
    assert kinds == "['cubin', 'llvm', 'ptx', 'source', 'types'] True"
    # Numbers of lines are the cell's, with its first line.
    assert source == f"{_KERNEL.rpartition(chr(10) * 2)[0] + chr(10)!r} 2"
    assert file == "['In[']"
    notebook.ok(f"%%kernelscope -q\n{_KERNEL}")
    assert notebook.ok(_SHOW_CODE).stdout.splitlines()[0] == "[] False"
    notebook.ok("%kernelscope on -q --code")
    notebook.ok(_KERNEL)
    notebook.ok("%kernelscope off")
    assert notebook.ok(_SHOW_CODE).stdout.splitlines()[0] == kinds


def test_cells(notebook: Any) -> None:
    assert notebook.ok("%kernelscope cells").stdout == "no cell was recorded yet\n"
    notebook.ok(f"%%kernelscope -q -n fine\n{LAUNCH}\n{LAUNCH}")
    notebook.run("%%kernelscope -q -n bad\naxpy[2, 4096](a, 2.0, a)")
    ran = notebook.ok("%kernelscope cells")
    assert ran.kinds == ["card"]
    assert ran.cards[0]["text/html"].count("<tr>") == 3
    assert "dry run" in ran.card.splitlines()[0]
    text = " ".join(ran.card.split())  # how its lines are broken depends on how long things took
    for word in ("launches", "kernels", "compiled", "memory", "host", "wall", "status", "dispatch", "finish", " fine "):
        assert word in text
    assert text.index(" fine ") < text.index(" bad ") < text.index("error, 1 launch failed")


def test_lines(notebook: Any) -> None:
    """Of the cell, below its magics and empty lines; of functions in other cells; of %%time's body."""
    there = notebook.ok("def elsewhere(x):\n    pass\n    axpy[2, 32](x, 2.0, x)").reply["execution_count"]
    notebook.ok(f"%%kernelscope -q -n ways\n{LAUNCH}\n\nfor turn in range(2):\n    axpy[2, 32](\n        a, 2.0, a)\n"
                "elsewhere(a)")
    ran = notebook.ok("%kernelscope lines ways")
    here = there + 1
    assert ran.kinds == ["card"]
    assert {line.split()[0] for line in ran.card.splitlines()[2:]} == {
        f"In[{here}]:2", f"In[{here}]:5", f"In[{there}]:3"}
    assert LAUNCH in ran.card and "elsewhere" in ran.card and "axpy[2, 32](x, 2.0, x)" in ran.card
    for source in (f"%%kernelscope -q\n%%time\n\n{LAUNCH}", f"%%kernelscope -q\n\n\n%time {LAUNCH}",
                   f"\n\n%%kernelscope -q\n{LAUNCH}"):
        number = notebook.ok(source).reply["execution_count"]
        assert notebook.ok("%kernelscope lines").card.splitlines()[2].split()[0] == f"In[{number}]:4"
    notebook.ok("%kernelscope on -q")
    number = notebook.ok(f"\n\n# empty lines first\n{LAUNCH}").reply["execution_count"]
    notebook.ok("%kernelscope off")
    assert f"In[{number}]:4 " in (card := notebook.ok("%kernelscope lines").card) and LAUNCH in card
    notebook.ok(f"%%kernelscope -q --no-lines\n{LAUNCH}")
    assert "no line of code is known" in notebook.ok("%kernelscope lines").card


def test_call_paths(notebook: Any) -> None:
    """They begin in the cell, whatever runs it, and have the frames of libraries."""
    paths = """
stacks, lines = _kernelscope.rows("stacks"), _kernelscope.rows("lines")
def path(at):
    return [] if at is None else [*path(stacks[at]["parent_stack_id"]), lines[stacks[at]["line_id"]]]
for row in _kernelscope.rows("launches"):
    print(*(f"{each['file']}:{each['line']}" for each in path(row["stack_id"]) if each["user_code"]))
print({each["file"].rpartition("/")[2] for each in lines if not each["user_code"]})
"""
    there = notebook.ok("def elsewhere(x):\n    axpy[2, 32](x, 2.0, x)").reply["execution_count"]
    for first in ("%%kernelscope -q --stacks", "%%kernelscope -q --stacks\n%%time"):
        here = notebook.ok(f"{first}\n\n{LAUNCH}\nelsewhere(a)").reply["execution_count"]
        line = 2 + first.count("%%")
        *found, libraries = notebook.ok(paths).stdout.splitlines()
        assert found == [f"In[{here}]:{line}", f"In[{here}]:{line + 1} In[{there}]:2"]
        assert "dispatcher.py" in libraries and "interactiveshell.py" not in libraries


def test_report(notebook: Any) -> None:
    assert "nothing was recorded yet" in notebook.run("%kernelscope report").stderr
    first = notebook.ok(f"%%kernelscope -q -n one\n{LAUNCH}").reply["execution_count"]
    notebook.ok(f"%%kernelscope -q -n two\n{LAUNCH}\n{LAUNCH}")
    assert "two" in notebook.ok("%kernelscope report").card
    assert "one" in notebook.ok("%kernelscope report one").card
    assert f"In [{first}]" in notebook.ok(f"%kernelscope report {first}").card
    ran = notebook.run("%kernelscope report 9999")
    assert ran.status == "error"
    assert ran.stderr == f"UsageError: no recorded cell '9999'; known: {first} ('one'), {first + 1} ('two')\n"


def test_timeline(notebook: Any) -> None:
    assert "nothing was recorded yet" in notebook.run("%kernelscope timeline").stderr
    first = notebook.ok(f"%%kernelscope -q -n one\n{LAUNCH}")
    assert first.timelines == []
    assert notebook.ok("%%kernelscope -n nothing\nx = 1").timelines == []
    ran = notebook.ok(f"%kernelscope timeline {first.reply['execution_count']}")
    assert (ran.kinds, ran.timelines) == ([], ["widget", "picture"])
    assert notebook.ok("%kernelscope timeline one").timelines == ["widget", "picture"]
    assert "nothing was launched" in notebook.ok("%kernelscope timeline").stdout
    assert notebook.run("%kernelscope timeline 9999").stderr.startswith("UsageError: no recorded cell '9999'")


def test_graph(notebook: Any) -> None:
    assert "no recorded graph" in notebook.run("%kernelscope graph").stderr
    notebook.ok(f"import sys; sys.path.insert(0, {str(HELPERS)!r})\n"
                "from drawn_graphs import chain\n"
                "shell._kernelscope_magics.recordings.append(chain(3))")
    for line in ("%kernelscope graph", "%kernelscope graph 0"):
        widget, picture = (content["data"] for _, content in notebook.ok(line).messages)
        assert "application/vnd.jupyter.widget-view+json" in widget
        assert picture["text/plain"].startswith("graph 0 · 3 nodes")
    assert "no graph 7; the recording has graph 0 (3 nodes)" in notebook.run("%kernelscope graph 7").stderr
    assert "'x' is not a graph's number" in notebook.run("%kernelscope graph x").stderr


def test_the_timeline_follows_the_card(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope\n{LAUNCH}")
    assert (ran.kinds, ran.timelines) == (["card"], ["widget", "picture"])
    assert notebook.ok(f"%%kernelscope --no-timeline\n{LAUNCH}").timelines == []
    assert notebook.ok(f"%%time\n%%kernelscope\n{LAUNCH}").timelines == ["widget", "picture"]
    assert notebook.ok("%kernelscope report").timelines == []
    notebook.ok("%kernelscope on")
    assert notebook.ok(LAUNCH).timelines == ["widget", "picture"]
    notebook.ok("%kernelscope on -q")
    assert notebook.ok(LAUNCH).timelines == []


def test_save_and_load(notebook: Any) -> None:
    refused = notebook.run("%kernelscope save all")
    assert refused.stderr == "UsageError: there is nothing to save: no cell was recorded yet\n"
    notebook.ok(f"%%kernelscope -q -n one\n{LAUNCH}")
    notebook.ok(f"%%kernelscope -q -n two\n{LAUNCH}")
    saved = notebook.ok("%kernelscope save all").stdout
    assert saved.startswith("kernelscope: wrote all.kscope (")
    assert saved.endswith("2 recordings with 2 launches\n")
    card = notebook.ok("%kernelscope load all").card
    assert "one" in card and "two" in card
    assert notebook.value("_kernelscope.cells.name.tolist()") == "['one', 'two']"
    assert "2 recordings" in notebook.ok("%kernelscope status").stdout


def test_export(notebook: Any) -> None:
    refused = notebook.run("%kernelscope export all.json")
    assert refused.stderr == "UsageError: there is nothing to export: no cell was recorded yet\n"
    notebook.ok(f"%%kernelscope -q -n one\n{LAUNCH}")
    notebook.ok(f"%%kernelscope -q -n two\n{LAUNCH}")
    assert notebook.ok("%kernelscope export all.json").stdout == "kernelscope: wrote all.json\n"
    assert notebook.value("open('all.json').read().count('\"cat\":\"launch\"')") == "2"
    assert notebook.ok("%kernelscope export tables --to parquet").stdout == "kernelscope: wrote tables\n"
    ran = notebook.run("%kernelscope export all.txt")
    assert ran.stderr.startswith("UsageError: 'all.txt' does not say which format") and ran.stderr.count("\n") == 1


def test_dryrun_and_attach(notebook: Any) -> None:
    assert "dry run" in notebook.ok("%kernelscope dryrun").stdout
    later = notebook.ok("%kernelscope attach axpy")
    assert later.stdout == "kernelscope: axpy is attached when the next recording starts\n"
    assert "1 launch" in notebook.ok(f"%%kernelscope\n%kernelscope attach axpy\n{LAUNCH}").card
    ran = notebook.run("%kernelscope attach nothing")
    assert ran.stderr == "UsageError: 'nothing' is no kernel: NameError: name 'nothing' is not defined\n"


def test_help(notebook: Any) -> None:
    for magic, word in (("%kernelscope?", "report show the card of a cell again"), ("%%kernelscope?", "--no-timeline")):
        payload = notebook.ok(magic).reply["payload"]
        assert word in " ".join(payload[0]["data"]["text/plain"].split())
    assert "  report    show the card of a cell again" in notebook.ok("%kernelscope help").stdout
    for line in ("%kernelscope help save", "%kernelscope save --help"):
        assert notebook.ok(line).stdout.startswith("usage: %kernelscope save [-h] FILE\n")
    notebook.ok("%%kernelscope -q -n {shell}\nx = 1")
    assert notebook.value("_kernelscope.name") == "'{shell}'", "names in braces are not expanded"
    ran = notebook.ok("%%kernelscope --help\nprint('ran')")
    assert ran.stdout.startswith("usage: %%kernelscope ") and "\nran" not in ran.stdout
    assert "no sub-command 'nothing'; known: on," in notebook.run("%kernelscope help nothing").stderr


STATE = """
def state():
    return (list(shell.input_transformers_cleanup), {name: list(each) for name, each in shell.events.callbacks.items()},
            {kind: set(each) for kind, each in shell.magics_manager.magics.items()}, set(vars(shell)),
            set(shell.user_ns))
"""


def test_unloading_restores_everything(notebook: Any) -> None:
    notebook.run("%unload_ext kernelscope")
    notebook.ok(STATE + "\nbefore = after = None\nbefore = state()")
    notebook.ok("shell.run_line_magic('load_ext', 'kernelscope')\nshell.run_line_magic('load_ext', 'kernelscope')\n"
                "kernelscope.load_ipython_extension(shell)")
    notebook.ok(f"%%kernelscope -q\n{LAUNCH}")
    notebook.ok("%kernelscope on")
    notebook.ok(LAUNCH)
    notebook.ok(f"{LAUNCH}\n%unload_ext kernelscope")
    notebook.ok("after = state()")
    assert notebook.value("[a == b for a, b in zip(before[:4], after[:4])]") == "[True, True, True, True]"
    assert notebook.value("{n for n in after[4] ^ before[4] if not n.startswith('_') or 'kernel' in n}") == "set()"
    assert notebook.run("%kernelscope").status == "error"
    assert notebook.run("%%kernelscope\nx = 1").reply["ename"] == "UsageError"


def test_reloading_keeps_the_recordings_and_goes_on_with_what_was_on(notebook: Any) -> None:
    notebook.ok(f"%%kernelscope -q -n one\n{LAUNCH}")
    notebook.ok(f"%%kernelscope -q -n two\n{LAUNCH}\n{LAUNCH}")
    ran = notebook.ok("%reload_ext kernelscope")
    assert ran.stdout == "kernelscope: 2 recordings with 3 launches of this session kept\n"
    assert "one" in notebook.ok("%kernelscope report one").card
    assert notebook.value("_kernelscope.name") == "'two'"
    notebook.ok(LAUNCH)
    assert "2 recordings with 3 launches" in notebook.ok("%kernelscope status").stdout
    notebook.ok("%kernelscope on --detail launch")
    ran = notebook.ok("%reload_ext kernelscope")
    assert ran.stdout == ("kernelscope: 2 recordings with 3 launches of this session kept; every cell is recorded, as "
                          "before\n")
    assert "1 launch" in notebook.ok(LAUNCH).card
    assert notebook.value("_kernelscope.metadata['detail']") == "'launch'"


def test_unloading_and_loading_keeps_the_recordings_and_records_no_more(notebook: Any) -> None:
    notebook.ok(f"%%kernelscope -q -n one\n{LAUNCH}")
    notebook.ok("%kernelscope on")
    notebook.ok("%unload_ext kernelscope")
    assert notebook.run("_kernelscope").status == "error"
    kept = "kernelscope: 1 recording with 1 launch of this session kept\n"
    assert notebook.ok("%load_ext kernelscope").stdout == kept
    assert notebook.ok(LAUNCH).cards == []
    assert notebook.value("_kernelscope.name") == "'one'"


@pytest.mark.parametrize("around", ["", "%%time\n"])
def test_a_cell_that_unloads_is_recorded_until_there(notebook: Any, around: str) -> None:
    ran = notebook.ok(f"{around}%%kernelscope -n cut\n{LAUNCH}\n%unload_ext kernelscope\n{LAUNCH}")
    assert "1 launch" in ran.card
    notebook.ok("%load_ext kernelscope")
    assert "cut" in notebook.ok("%kernelscope report").card


def test_words_that_are_mistyped_are_answered_with_the_nearest(notebook: Any) -> None:
    def said(line: str) -> str:
        ran = notebook.run(line)
        assert (ran.status, ran.reply["ename"], ran.stderr.count("\n")) == ("error", "UsageError", 1)
        return ran.stderr

    assert "did you mean 'axpy'?" in said("%kernelscope inspect axpi")
    assert "did you mean 'axpy'?" in said("%kernelscope attach axpi")
    notebook.ok(f"%%kernelscope -q -n warming -o near\n{LAUNCH}")
    assert "did you mean 'axpy'?" in said("%kernelscope inspect axpi")
    assert "did you mean 'warming'?" in said("%kernelscope report waming")
    assert "did you mean 'warming'?" in said("%kernelscope whatif graph waming")
    assert "did you mean 'near.kscope'?" in said("%kernelscope load neer")
    assert "did you mean '.pftrace'?" in said("%kernelscope export out.pftrac")


def test_a_recording_is_not_saved_under_an_export_s_name(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope -q -o out.html\n{LAUNCH}")
    assert ran.stderr.startswith("kernelscope: 'out.html' is the name of an export") and ran.stderr.count("\n") == 1
    assert "'out.json' is the name of an export" in notebook.run("%kernelscope save out.json").stderr
    assert "html, and --to says csv" in notebook.run("%kernelscope export out.html --to csv").stderr


def test_loading_imports_nothing_heavy(run_python: Callable[..., Any]) -> None:
    ran = run_python("""
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "kernelscope")
print([name for name in ("pandas", "plotly", "numba", "numpy", "pyarrow", "cuda", "anywidget", "ipywidgets")
       if name in sys.modules])
""", KERNELSCOPE_DRYRUN="0")
    assert ran.stdout == "[]\n"


@pytest.mark.slow
def test_a_terminal_shows_the_text(run_python: Callable[..., Any], tmp_path: Path) -> None:
    ran = run_python("""
from IPython.terminal.interactiveshell import TerminalInteractiveShell
shell = TerminalInteractiveShell.instance(simple_prompt=True)
shell.run_line_magic("load_ext", "kernelscope")
shell.run_cell("%kernelscope inspect", store_history=True)
shell.run_cell("%%kernelscope -n terminal\\n6 * 7", store_history=True)
shell.run_cell("%%kernelscope -r\\nx = 1", store_history=True)
shell.run_cell("%kernelscope cells", store_history=True)
shell.run_cell("%kernelscope timeline", store_history=True)
print("complete", shell.check_complete("%%kernelscope\\nx = 1")[0], shell.check_complete("%%kernelscope\\nx = 1\\n")[0],
      shell.check_complete("%%time\\nx = 1")[0])
shell.run_cell("import numpy as np\\nfrom numba import cuda\\n@cuda.jit\\ndef scale(x):\\n    x[0] = 2")
shell.run_cell("scale[1, 1](np.zeros(1))")
shell.run_cell("%kernelscope inspect scale")
shell.run_cell("import kernelscope\\nkernelscope.inspect(scale)", store_history=True)
shell.run_line_magic("unload_ext", "kernelscope")
""", IPYTHONDIR=str(tmp_path))
    assert "there is nothing to inspect: no cell was recorded yet" in ran.stdout + ran.stderr
    assert ran.stdout.count("float64[:] C") >= 2
    assert "Out[2]: 42" in ran.stdout
    assert "KernelScope: In [2] terminal (ok)" in ran.stdout
    assert "Out[3]: \nKernelScope: In [3] (ok)" in ran.stdout
    assert "<div" not in ran.stdout
    assert "a terminal shows no timeline" in ran.stdout
    # A cell magic's cell ends with an empty line.
    assert "complete incomplete incomplete incomplete" in ran.stdout


# ---- %kernelscope inspect: of a name, of an expression, of all, and of what there is not ----

CLOSE = "import ipywidgets; ipywidgets.Widget.close_all()"


def parts(ran: Any) -> list[str]:
    return [part for _, content in ran.messages
            if (part := content.get("metadata", {}).get("kernelscope", {}).get("inspector"))]


def text(ran: Any) -> str:
    """The static twin's text."""
    return next(content["data"]["text/plain"] for _, content in ran.messages
                if content.get("metadata", {}).get("kernelscope", {}).get("inspector") == "picture")


@pytest.fixture
def inspector(notebook: Any) -> Iterator[Any]:
    """The notebook; its inspectors are closed in the end, and then follow no cell."""
    yield notebook
    notebook.ok(CLOSE)
    assert notebook.value("[f for f in shell.events.callbacks['post_run_cell'] if '_after_cell' in str(f)]") == "[]"


def test_a_kernel_by_its_name(inspector: Any) -> None:
    ran = inspector.ok("%kernelscope inspect axpy")
    assert parts(ran) == ["widget", "picture"]
    assert "float32[:] C" in text(ran)
    ran = inspector.ok("axpy[2, 32](cuda.to_device(np.zeros(8)), 1.0, cuda.to_device(np.zeros(8)))")
    assert parts(ran) == ["picture"]
    assert "float64[:] C" in text(ran)
    assert parts(inspector.ok("x = 1")) == []


def test_a_name_that_is_deleted_shows_what_it_meant_last(inspector: Any) -> None:
    inspector.ok("@cuda.jit\ndef mine(x):\n    x[0] = 1")
    inspector.ok("%kernelscope inspect mine")
    assert "y" in text(inspector.ok("@cuda.jit\ndef mine(y):\n    y[0] = 2"))
    assert parts(inspector.ok("del mine")) == []


def test_what_was_recorded(inspector: Any) -> None:
    inspector.ok("%%kernelscope -q\naxpy[2, 32](a, 2.0, a)\naxpy[2, 32](a, 2.0, a)")
    assert "axpy" in text(inspector.ok("%kernelscope inspect"))
    inspector.ok("kept, axpy = axpy, None")
    said = text(inspector.ok("%kernelscope inspect axpy"))
    assert "float32[:] C" in said
    inspector.ok("axpy = kept")
    assert "axpy" in text(inspector.ok("%kernelscope inspect _kernelscope"))
    inspector.ok("held = {'the kernel': axpy}")
    assert "axpy" in text(inspector.ok("%kernelscope inspect held['the kernel']"))


@pytest.mark.parametrize("wanted", ["nothing_like_it", "np", "1 +", "axpy[2, 32]"])
def test_names_that_are_none_are_told_in_a_line(inspector: Any, wanted: str) -> None:
    ran = inspector.run(f"%kernelscope inspect {wanted}")
    assert ran.reply["ename"] == "UsageError"
    said = ran.stderr or ran.traceback
    assert "no recorded kernel" in said or "nothing to inspect" in said
    assert "kernels in the notebook: " in said
    assert "axpy" in said
    assert said.strip().count("\n") == 0


# ---- %kernelscope whatif ----

CELL = "%%kernelscope -q\nruns += 1\nfor n in range(4):\n    axpy[2, 32](mine, 2.0, mine)"
HOOKED = """
from numba.cuda.cudadrv import driver as numbas_driver
[function.__qualname__ for owner in (dispatcher.CUDADispatcher, numbas_driver.Context, numbas_driver.Stream,
                                     numbas_driver.Event, numbas_driver)
 for function in vars(owner).values() if 'kernelscope' in str(getattr(function, '__module__', ''))]
"""


@pytest.fixture
def whatif(notebook: Any) -> Iterator[Any]:
    """The notebook with an array and a counter; nothing stays hooked."""
    notebook.ok("runs = 0\nmine = cuda.to_device(np.zeros(8, np.float32))")
    yield notebook
    assert notebook.ok(HOOKED).values[-1] == "[]"


def test_the_newest_cell(whatif: Any) -> None:
    whatif.ok(CELL)
    ran = whatif.ok("%kernelscope whatif graph")
    assert ran.stdout.startswith("kernelscope: cell ")
    assert "is run again, in this notebook's namespace" in ran.stdout
    assert "were a graph: 4 launches of axpy" in ran.card
    assert "dry run: kernels did not execute: there are no times and no results to compare" in ran.card
    assert "Captured and instantiated: 4 nodes, on 1 array of 32 B." in ran.card
    assert not [claim for claim in ("equal", "faster", "breaks even", "saved") if claim in ran.card]
    assert "was run again once, in this notebook's namespace" in ran.card
    assert whatif.value("runs") == "2"


def test_a_cell_by_its_name_and_number(whatif: Any) -> None:
    assert "no recorded cell" in refused(whatif.run("%kernelscope whatif graph"))
    whatif.ok(CELL.replace("-q", "-q -n first"))
    number = whatif.value("len(In) - 2")
    whatif.ok("%%kernelscope -q\naxpy[1, 1](mine, 1.0, mine)")
    for wanted in ("first", '"first"', number):
        assert "4 launches of axpy" in whatif.ok(f"%kernelscope whatif graph {wanted}").card
    whatif.ok("%kernelscope on -q")
    card = whatif.ok("%kernelscope whatif graph").card  # which is not recorded itself
    assert "1 launch of axpy" in card and "A recording was under way" not in card
    whatif.ok("%kernelscope off")
    assert whatif.value("runs") == "4"


def test_cells_with_magics_and_kernels_of_their_own(whatif: Any) -> None:
    whatif.ok("%%kernelscope -q\n%env KERNELSCOPE_A_TEST=1\n@cuda.jit(cache=True)\ndef fresh(x):\n    x[0] = 1\n"
                "fresh[1, 1](mine)\nfresh[1, 1](mine)\ncuda.synchronize()\nmine.copy_to_host()")
    ran = whatif.ok("%kernelscope whatif graph")
    assert "2 launches of fresh" in ran.card
    assert "after the last: synchronize at line 8, copy_to_host at line 9." in ran.card


def test_one_round_of_a_loop(whatif: Any) -> None:
    whatif.ok("more = cuda.to_device(np.zeros(8, np.float32))")
    whatif.ok("%%kernelscope -q -n loop\nfor n in range(40):\n    axpy[2, 32](mine, 2.0, mine)\n"
                "    axpy[4, 32](more, 2.0, mine)")
    number = whatif.value("len(In) - 2")
    shown = whatif.ok("%kernelscope whatif graph").card
    assert f"What if a round of cell {number} were a graph: 2 launches of axpy" in shown
    assert f"Cell {number} made 40 such rounds one after another" in shown


def test_what_a_graph_cannot_hold_is_one_line(whatif: Any) -> None:
    whatif.ok("%%kernelscope -q\naxpy[1, 1](mine, 1.0, mine)\nother = cuda.device_array(3)\n"
                "axpy[1, 1](mine, 1.0, mine)")
    said = refused(whatif.run("%kernelscope whatif graph"))
    assert "cannot be a graph as it is: device_array at line 3 allocates memory; that must come before" in said
    assert len(said.strip().splitlines()) == 1
    assert "no recorded cell '99'; known:" in refused(whatif.run("%kernelscope whatif graph 99"))


def test_errors_of_the_cell_are_its_own(whatif: Any) -> None:
    whatif.ok("%%kernelscope -q\naxpy[1, 1](mine, 1.0, mine)\nassert not runs\nint(wrong if runs else 7)")
    whatif.ok("runs, wrong = 0, 'x'")
    whatif.ok("%kernelscope whatif graph")
    whatif.ok("%%kernelscope -q\nint(wrong) if runs else axpy[1, 1](mine, 1.0, mine)")
    ran = whatif.run("runs = 1\n%kernelscope whatif graph")
    assert "ValueError: invalid literal for int()" in ran.traceback
    assert "int(wrong)" in ran.traceback


def test_an_interruption(whatif: Any) -> None:
    whatif.ok("%%kernelscope -q\naxpy[1, 1](mine, 1.0, mine)\n"
                "if runs:\n    print('ready', flush=True)\n    time.sleep(30)")
    whatif.ok("runs = 1")
    ran = whatif.run("%kernelscope whatif graph", interrupt=True)
    assert "KeyboardInterrupt" in ran.traceback
    captures = "kernelscope.dryrun.counters().calls.get('cuStreamBeginCapture', 0)"
    ends = "kernelscope.dryrun.counters().calls.get('cuStreamEndCapture', 0)"
    assert whatif.value(captures) == whatif.value(ends)
    whatif.ok("runs = 0")
    assert "1 launch of axpy" in whatif.ok("%kernelscope whatif graph").card


# ---- %kernelscope study ----

SETUP = f"""
import sys
if {str(HELPERS)!r} not in sys.path:
    sys.path.insert(0, {str(HELPERS)!r})
import time
from pytest import MonkeyPatch
from handmade_studies import COSTS, measured
from stand_in_studies import Studies
from kernelscope import studies
from kernelscope.studies.result import StudyResult
patch = MonkeyPatch()
made = Studies()
made.put_in_place(patch)
"""


@pytest.fixture
def study(notebook: Any) -> Iterator[Any]:
    """The notebook, with studies that measure nothing."""
    notebook.ok(SETUP)
    yield notebook
    notebook.ok("patch.undo()")


def shown(ran: Any) -> list[dict[str, str]]:
    """What was displayed: the card, the figure."""
    return [content["data"] for kind, content in ran.messages if kind == "display_data"]


def drawn(data: dict[str, str]) -> list[str]:
    """The first words of the titles of the figures in an output."""
    found = re.search(r'data-kind="figures">(.*?)</script>', data["text/html"])
    assert found is not None
    titles = [each["layout"]["title"]["text"] for each in json.loads(found[1])]
    return [re.sub("<[^>]*>", "", each.split("<br>")[0]) for each in titles]


def refused(ran: Any) -> str:
    """The one line of a UsageError."""
    assert ran.status == "error" or "UsageError" in ran.stderr, ran.messages
    assert ran.stderr.strip().count("\n") == 0
    return ran.stderr


def test_the_card_is_shown_and_the_figures_on_request(study: Any) -> None:
    (card,) = shown(study.ok("%kernelscope study launch"))
    assert len(card["text/html"]) < 100_000
    ran = study.ok("%kernelscope study --target a=current --target \"b=../some where\" --args 0-4 --dryrun --charts")
    card, figure = shown(ran)
    assert card["text/plain"].startswith("***") and "dry run" in card["text/plain"]
    assert "ks-study" in card["text/html"]
    assert "Launch overhead by number" in figure["text/html"]
    assert drawn(figure) == ["Launch overhead by number of arguments", "Launch overhead, by process",
                             "Launch overhead over the study's time"]
    assert ran.stdout == ran.stderr == ""
    assert study.value("made.asked[-1][:2]") == "('launch_overhead', (('a=current', 'b=../some where'), None))"
    assert study.value("made.options") == "{'args': '0-4', 'dry_run': True}"
    assert study.value("_kernelscope_study is made.result") == "True"


@pytest.mark.slow
def test_a_real_study_shows_its_progress_and_takes_it_away(study: Any) -> None:
    study.ok("patch.undo()")
    ran = study.ok("%kernelscope study --args 0 --processes 5 --repeats 2 --half-width 0")
    progress, card = shown(ran)
    assert progress["text/plain"] and card["text/plain"].startswith("*** dry run")
    updates = [content["data"]["text/plain"] for kind, content in ran.messages if kind == "update_display_data"]
    assert any("process 5 of 5" in each for each in updates) and updates[-1] == ""
    assert study.value("[each.processes for each in _kernelscope_study.targets]") == "[5]"


def test_an_anatomy_shows_its_parts_and_where_a_target_spends_more(study: Any) -> None:
    study.ok("from handmade_anatomies import anatomy\n"
                "from kernelscope.studies.breakdown import AnatomyResult\n"
                "made.result = AnatomyResult(anatomy({'base': {}, 'v2': {'argument 1': 2000.0}}))")
    card, figure = shown(study.ok("%kernelscope study anatomy --charts"))
    assert card["text/plain"].startswith("Anatomy of a launch")
    said = drawn(figure)
    assert [each[:each.index(":" if ":" in each else ",")] for each in said] == [
        "Parts of a launch", "Parts of a launch", "Where v2 differs from base"] and len({*said}) == 3
    assert "--fail-over" in refused(study.run("%kernelscope study anatomy --fail-over 3%"))


def test_a_case_may_be_a_variable(study: Any) -> None:
    study.ok("mine = studies.case('k[1, 1](a)')\nrun = lambda: axpy[1, 1](a, 1.0, a)")
    study.ok("%kernelscope study --case mine --case run --case graph")
    assert study.value("made.asked[-1][1][1] == [mine, run, 'graph']") == "True"


def test_files_and_the_limit(study: Any) -> None:
    study.ok("made.result = StudyResult(measured({name: COSTS[name] for name in ('baseline', 'contextvar')}))\n"
                "path = 'studied.json'")
    ran = study.ok("%kernelscope study -o {path} --fail-over 3%")
    lines = ran.stdout.splitlines()
    assert lines[0] == "kernelscope: wrote studied.json"
    assert len(lines) == 6 and all("over the limit of 3 %" in line for line in lines[1:])
    assert json.loads((study.folder / "studied.json").read_text())["format"] == "kernelscope-study"
    ran = study.ok("%kernelscope study show studied.json")
    assert "contextvar" in shown(ran)[0]["text/plain"]
    assert study.value("_kernelscope_study.measured == made.result.measured") == "True"


@pytest.mark.parametrize(("line", "said"), [
    ("-o missing/x.json", "there is no folder missing"),
    ("against HEAD", "a comparison needs two refs or more"),
    ("show none.json", "none.json"),
])
def test_a_wrong_line_is_one_line(study: Any, line: str, said: str) -> None:
    assert said in refused(study.run(f"%kernelscope study {line}"))
    assert study.value("made.asked") == "[]"


def test_what_a_case_of_the_users_raises_is_shown_as_it_is(study: Any) -> None:
    study.ok("made.raised = ValueError('mine')")
    assert "ValueError: mine" in study.run("%kernelscope study").traceback


def test_help_and_the_list_of_cases_are_printed(study: Any) -> None:
    assert "%kernelscope study launch" in study.ok("%kernelscope study launch --help").stdout
    assert "Exit codes" in study.ok("%kernelscope study -h").stdout
    assert study.ok("%kernelscope study --list-cases").stdout.startswith("empty:")
    assert study.value("made.asked") == "[]"


def test_an_interruption_shows_what_was_measured_and_ends_the_cell(study: Any) -> None:
    study.ok("made.interrupt()")
    ran = study.run("%kernelscope study\nnever_reached = 1")
    assert "KeyboardInterrupt: the study was interrupted; _kernelscope_study has what was measured" in ran.traceback
    assert "stand_in_studies" not in ran.traceback and len(shown(ran)) == 1
    assert study.value("_kernelscope_study is made.result, 'never_reached' in globals()") == "(True, False)"
    study.ok("made.interrupt(is_early=True)\ndel _kernelscope_study")
    ran = study.run("%kernelscope study")
    assert ran.traceback.splitlines()[-1].startswith("KeyboardInterrupt: nothing was measured") and not shown(ran)
    assert study.value("'_kernelscope_study' in globals()") == "False"


def test_a_real_interruption(study: Any) -> None:
    study.ok("def slow(*arguments, **options):\n    print('ready', flush=True)\n    time.sleep(30)\n"
                "patch.setitem(vars(studies), 'launch_overhead', slow)")
    ran = study.run("%kernelscope study", interrupt=True)
    assert "KeyboardInterrupt" in ran.traceback


def test_a_figure_that_fails_is_one_line_under_the_card(study: Any) -> None:
    study.ok("patch.setattr(StudyResult, 'plot', lambda self, kind: 1 / 0)")
    ran = study.ok("%kernelscope study --charts")
    assert len(shown(ran)) == 1
    assert ran.stderr == "kernelscope: the figures cannot be shown: ZeroDivisionError: division by zero\n"
    study.ok("patch.setattr(get_ipython().display_formatter, 'active_types', ['text/plain'])")  # as in a terminal
    ran = study.ok("%kernelscope study --charts")
    assert ran.stderr == "kernelscope: --charts needs a notebook; _kernelscope_study.figures() has them\n"


def test_it_leaves_with_the_extension(study: Any) -> None:
    for setup in ("", "made.interrupt()"):
        study.ok(setup)
        study.run("%kernelscope study")
        assert study.value("'_kernelscope_study' in globals()") == "True"
        study.ok("%unload_ext kernelscope")
        assert study.value("'_kernelscope_study' in globals()") == "False"
        study.ok("%load_ext kernelscope")
    study.ok("made.raised = None\n%kernelscope study\n_kernelscope_study = 'mine'")
    study.ok("%unload_ext kernelscope")
    assert study.value("_kernelscope_study") == "'mine'"
