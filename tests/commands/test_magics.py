"""The sub-commands of `%kernelscope`, and the extension's way in and out, in a real kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LAUNCH = "axpy[2, 32](a, 2.0, a)"
HELPERS = Path(__file__).resolve().parents[1] / "helpers"


@pytest.mark.slow
def test_without_a_command_it_is_one_line(notebook: Any) -> None:
    ran = notebook.ok("%kernelscope")
    assert ran.stdout.count("\n") == 1
    assert "records cells that begin with %%kernelscope; 0 recordings" in ran.stdout
    assert "%kernelscope help" in ran.stdout


def test_status(notebook: Any) -> None:
    notebook.ok(f"%%kernelscope -q\n{LAUNCH}")
    text = notebook.ok("%kernelscope status").stdout
    assert "1 recording with 1 launch" in text
    assert "dry run: kernels do not execute" in text
    notebook.ok("%kernelscope on --detail launch")
    assert "every cell (detail launch)" in notebook.ok("%kernelscope status").stdout
    notebook.ok("%kernelscope on -q")
    assert "every cell (detail phases, no cards)" in notebook.ok("%kernelscope status").stdout
    notebook.ok("%kernelscope on --code")
    assert "every cell (detail phases, with code)" in notebook.ok("%kernelscope status").stdout
    notebook.ok("%kernelscope on --mode ring")
    assert "every cell (detail phases, mode ring)" in notebook.ok("%kernelscope status").stdout


_KERNEL = "@cuda.jit\ndef typed_here(x):\n    x[0] = 1  # a comment\n\ntyped_here[1, 1](a)"
_SHOW_CODE = """
rows = _kernelscope.rows("code")
source = [row for row in rows if row["kind"] == "source"]
print(sorted({row["kind"] for row in rows}), _kernelscope.metadata["code"])
print(repr(source[0]["text"]) if source else None, source[0]["lineno"] if source else None)
print([row["filename"][:3] for row in _kernelscope.rows("dispatchers")])
"""


def test_code_of_kernels_in_cells(notebook: Any) -> None:
    notebook.ok(f"%%kernelscope -q --code\n{_KERNEL}")
    kinds, source, file = notebook.ok(_SHOW_CODE).stdout.splitlines()
    assert kinds == "['cubin', 'llvm', 'ptx', 'sass', 'source', 'types'] True"
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
    notice, head, fine, bad = ran.card.splitlines()
    assert "dry run" in notice
    assert head.split()[:5] == ["cell", "launches", "kernels", "compiles", "hits"]
    for word in ("dispatch ms", "compile ms", "prepare ms", "submit ms", "finish ms", "errors"):
        assert word in head
    assert "fine" in fine and fine.split()[3:7] == ["2", "1", "0", "2"]
    assert bad.split()[-2:] == ["1", "error"]


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


def test_load_refuses_in_one_line(notebook: Any) -> None:
    notebook.ok("open('torn.kscope', 'w').write('no zip')")
    for name in ("torn.kscope", "missing"):
        ran = notebook.run(f"%kernelscope load {name}")
        assert (ran.status, ran.reply["ename"]) == ("error", "UsageError")
        assert ran.stderr.count("\n") == 1


def test_dryrun(notebook: Any) -> None:
    assert "dry run" in notebook.ok("%kernelscope dryrun").stdout


def test_attach(notebook: Any) -> None:
    later = notebook.ok("%kernelscope attach axpy")
    assert later.stdout == "kernelscope: axpy is attached when the next recording starts\n"
    assert "Launches: 1" in notebook.ok(f"%%kernelscope\n%kernelscope attach axpy\n{LAUNCH}").card
    ran = notebook.run("%kernelscope attach nothing")
    assert ran.stderr == "UsageError: 'nothing' is no kernel: NameError: name 'nothing' is not defined\n"


def test_variables_are_not_expanded(notebook: Any) -> None:
    notebook.ok("%%kernelscope -q -n {shell}\nx = 1")
    assert notebook.value("_kernelscope.name") == "'{shell}'"


def test_help(notebook: Any) -> None:
    for magic, word in (("%kernelscope?", "report show the card of a cell again"), ("%%kernelscope?", "--no-timeline")):
        payload = notebook.ok(magic).reply["payload"]
        assert word in " ".join(payload[0]["data"]["text/plain"].split())
    assert "  report    show the card of a cell again" in notebook.ok("%kernelscope help").stdout
    for line in ("%kernelscope help save", "%kernelscope save --help"):
        assert notebook.ok(line).stdout.startswith("usage: %kernelscope save [-h] FILE\n")
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


def test_reloading_keeps_the_recordings(notebook: Any) -> None:
    notebook.ok(f"%%kernelscope -q -n one\n{LAUNCH}")
    notebook.ok(f"%%kernelscope -q -n two\n{LAUNCH}\n{LAUNCH}")
    ran = notebook.ok("%reload_ext kernelscope")
    assert ran.stdout == "kernelscope: 2 recordings with 3 launches of this session kept\n"
    assert "one" in notebook.ok("%kernelscope report one").card
    assert notebook.value("_kernelscope.name") == "'two'"
    notebook.ok(LAUNCH)
    assert "2 recordings with 3 launches" in notebook.ok("%kernelscope status").stdout


def test_reloading_goes_on_with_what_was_on(notebook: Any) -> None:
    notebook.ok("%kernelscope on --detail launch")
    ran = notebook.ok("%reload_ext kernelscope")
    assert ran.stdout == ("kernelscope: 0 recordings with 0 launches of this session kept; every cell is recorded, as "
                          "before\n")
    assert "Launches: 1" in notebook.ok(LAUNCH).card
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
    assert "Launches: 1" in ran.card
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
shell.run_cell("%%kernelscope -n terminal\\n6 * 7", store_history=True)
shell.run_cell("%%kernelscope -r\\nx = 1", store_history=True)
shell.run_cell("%kernelscope cells", store_history=True)
shell.run_cell("%kernelscope timeline", store_history=True)
print("complete", shell.check_complete("%%kernelscope\\nx = 1")[0], shell.check_complete("%%kernelscope\\nx = 1\\n")[0],
      shell.check_complete("%%time\\nx = 1")[0])
shell.run_line_magic("unload_ext", "kernelscope")
""", IPYTHONDIR=str(tmp_path))
    assert "Out[1]: 42" in ran.stdout
    assert "KernelScope: In [1] terminal (ok)" in ran.stdout
    assert "Out[2]: \nKernelScope: In [2] (ok)" in ran.stdout
    assert "<div" not in ran.stdout
    assert "a terminal shows no timeline" in ran.stdout
    # A cell magic's cell ends with an empty line.
    assert "complete incomplete incomplete incomplete" in ran.stdout
