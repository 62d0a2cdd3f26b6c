"""`%%kernelscope` in a real kernel: the cell is as without it, and its card comes after; and kernels that died."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from counting import lines_run
from handmade_journals import NAME, Handmade, Launch, rows_of_axpy

from kernelscope.commands import recover
from kernelscope.commands.magics import parse_line
from kernelscope.native.journal import default_folder

LAUNCH = "axpy[2, 32](a, 2.0, a)"


# ---- A recorded cell is the cell itself ----


def test_output_value_and_card_in_this_order(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope\nprint('out')\n{LAUNCH}\n6 * 7")
    assert ran.kinds == ["stream", "execute_result", "card"]
    assert ran.stdout == "out\n"
    assert ran.values == ["42"]
    assert set(ran.cards[0]) == {"text/plain", "text/html"}
    assert "1 launch" in ran.card
    number = ran.reply["execution_count"]
    assert f"In [{number}]" in ran.card
    assert notebook.value(f"_, Out[{number}], _{number}") == "(42, 42, 42)"


def test_execution_count_and_history_are_normal(notebook: Any) -> None:
    before = notebook.ok("1").reply["execution_count"]
    assert notebook.ok("%%kernelscope\n2").reply["execution_count"] == before + 1
    assert notebook.value("shell.history_manager.input_hist_raw[-2]") == repr("%%kernelscope\n2")
    assert notebook.value("_kernelscope.cells.source[0]") == repr("%%kernelscope\n2")


def test_variables_land_in_the_namespace(notebook: Any) -> None:
    notebook.ok("%%kernelscope -q\nfresh = 5\ndef function(): return fresh\nimport math as imported")
    assert notebook.value("function(), imported.pi > 3") == "(5, True)"
    assert "_kernelscope" not in notebook.ok("%who_ls").values[0]


def test_an_indented_cell_is_dedented(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope\n\n    # a comment\n    {LAUNCH}\n    if True:\n        !echo shell\n    6 * 7")
    assert (ran.stdout.split(), ran.values) == (["shell"], ["42"])
    assert "1 launch" in ran.card
    failing = notebook.run("%%kernelscope -q\n\n    x = 1\n    1 / 0")
    assert failing.reply["ename"] == "ZeroDivisionError"
    assert "----> 4 1 / 0" in failing.traceback


@pytest.mark.parametrize(("body", "values"), [
    ("    pwd", ["os.getcwd()"]), ("    %time 6 * 7", ["42"]), ("    %%time\n    6 * 7", ["42"]),
    ("%%!\necho hi", ["['hi']"]), ("\n\n  hidden = 6\n  hidden * 7", ["42"]), ("6 * 7;", []),
    ("await asyncio.sleep(0.01, 'slept')", ["'slept'"]), ("x = %pwd\n!echo shell\nx", ["os.getcwd()"]),
    ("from __future__ import annotations\ndef f(x: nothing): pass\nf.__annotations__", ["{'x': 'nothing'}"]),
])
def test_ipython_s_own_syntax_is_read_as_in_a_cell_of_its_own(notebook: Any, body: str, values: list[str]) -> None:
    notebook.ok("import os")
    ran = notebook.ok(f"%%kernelscope\n{body}")
    assert ran.values == [notebook.value(value) for value in values]
    assert len(ran.cards) == 1


def test_a_question_is_answered_and_nothing_runs(notebook: Any) -> None:
    ran = notebook.ok("%%kernelscope -q\n    axpy?")
    assert "Dispatcher" in ran.reply["payload"][0]["data"]["text/plain"]


def test_an_error_shows_its_traceback_then_the_card(notebook: Any) -> None:
    ran = notebook.run(f"%%kernelscope\n{LAUNCH}\n1 / 0\n{LAUNCH}")
    assert ran.status == "error"
    assert (ran.reply["ename"], ran.reply["evalue"]) == ("ZeroDivisionError", "division by zero")
    assert ran.kinds == ["error", "card"]
    assert "line 3" in ran.traceback
    assert "1 launch" in ran.card
    assert "(error)" in ran.card
    ran = notebook.run("%%kernelscope\nsys.exit(3)")
    assert (ran.status, ran.reply["ename"]) == ("error", "SystemExit")
    assert ran.kinds.count("card") == 1


def test_a_syntax_error_is_shown_as_usual(notebook: Any) -> None:
    ran = notebook.run("%%kernelscope\nx = 1\ndef f(:\n    pass")
    assert (ran.status, ran.reply["ename"]) == ("error", "SyntaxError")
    assert ran.kinds == ["error", "card"]
    assert "line 3" in ran.traceback
    assert "kernelscope" not in ran.traceback.lower()


def test_a_time_ends_where_the_code_ends(notebook: Any) -> None:
    notebook.ok("began = []\nlate = lambda: began.append(time.perf_counter_ns())\n"
                "shell.events.register('post_execute', late)")
    notebook.ok("%%kernelscope -q\nx = 1")
    notebook.ok("shell.events.unregister('post_execute', late)")
    notebook.ok("cell = _kernelscope.cells.iloc[0]")
    # Its first call ended the cell that registered it; the second came after the recorded cell's code.
    assert notebook.value("bool(cell.start_ns < cell.synchronized_ns <= began[1])") == "True"


@pytest.mark.parametrize("waiting", [
    f"while True: {LAUNCH}", "for tick in range(600): await asyncio.sleep(0.05)", "time.sleep(30)",
])
def test_ctrl_c_gives_the_traceback_and_the_card(notebook: Any, waiting: str) -> None:
    ready = "print('ready' + chr(10), end='', flush=True)"  # one message: the line's end would be one of its own
    ran = notebook.run(f"%%kernelscope\n{LAUNCH}\n{ready}\n{waiting}", interrupt=True)
    assert ran.status == "error"
    assert ran.reply["ename"] in ("KeyboardInterrupt", "CancelledError")
    assert ran.kinds == ["stream", "error", "card"]
    assert "kernelscope" not in ran.traceback.lower()
    assert "interrupted" in ran.card or "CancelledError" in ran.card
    assert notebook.value("len(_kernelscope.launches) >= 1") == "True"


SHELL = """
import signal
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from interruptions import handlers, interrupted_at, lines_of
from IPython.core.interactiveshell import InteractiveShell

import kernelscope
from kernelscope.recorder.session import Session

held = handlers()
next(held)
shell = InteractiveShell(user_ns={})
shell.run_line_magic("load_ext", "kernelscope")
done = set()
# As the body of another magic's cell, and recorded by IPython's events.
for line, cell in (("", "%%capture\\n%%kernelscope -q\\n1 + 1;"), ("on --no-journal", "1 + 1;")):
    if line:
        shell.run_line_magic("kernelscope", line)

    def run():
        shell.run_cell(cell)

    for _ in range(2):
        lines = lines_of(run)
    # What starts and stops recordings; making and showing them is not of this.
    lines = [each for each in lines if Path(each[0]).name in ("recorder.py", "session.py", "tracebacks.py")]
    assert len(lines) > 150, len(lines)
    for each in lines:
        if each in done:
            continue
        done.add(each)
        try:
            interrupted_at(each, run)
        except AssertionError:  # IPython, or the magic, says it in a line, and the cell goes on
            pass
        assert Session.active is None, each
    shell.run_cell(cell)
    assert shell.user_ns["_kernelscope"].cells.status.tolist() == ["ok"]
"""


@pytest.mark.slow
def test_ctrl_c_while_a_recording_starts_or_stops_leaves_none(run_python: Any) -> None:
    """At each line of ours that does so; the cell's end is the end of its recording whatever happens."""
    run_python(SHELL, str(Path(__file__).resolve().parents[1] / "helpers"))


# ---- Options ----


def test_quiet_shows_no_card_and_keeps_the_recording(notebook: Any) -> None:
    assert notebook.ok(f"%%kernelscope -q -n calm\n{LAUNCH}").messages == []
    assert notebook.value("_kernelscope.name, len(_kernelscope.launches)") == "('calm', 1)"


def test_return_makes_the_recording_the_value(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope -r -n given\n{LAUNCH}\n6 * 7")
    assert ran.kinds == ["execute_result", "card"]
    assert [kind for kind, _ in ran.messages] == ["execute_result", "execute_result", "display_data", "display_data"]
    assert ran.timelines == ["widget", "picture"]
    assert [content["execution_count"] for _, content in ran.messages[:2]] == [ran.reply["execution_count"]] * 2
    number = ran.reply["execution_count"]
    assert notebook.value(f"_.name, Out[{number}] is _kernelscope is _{number}, __") == "('given', True, 42)"


def test_return_works_with_await_and_semicolon(notebook: Any) -> None:
    assert notebook.ok("%%kernelscope -r\nawait asyncio.sleep(0, 1);").kinds == ["card"]
    assert notebook.value("_ is _kernelscope") == "True"
    assert notebook.run("%%kernelscope -r\n1 / 0").kinds == ["error", "card"]
    assert notebook.ok("%%kernelscope -r -q\nx = 1").kinds == []
    assert notebook.value("_ is _kernelscope") == "True"
    assert len(notebook.ok("%%time\n%%kernelscope -r\nx = 1").cards) == 1
    assert notebook.value("_ is _kernelscope") == "True"


def test_charts_come_under_the_card(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope --charts\n{LAUNCH}")
    shown = [content["data"]["text/html"] for kind, content in ran.messages if kind == "display_data"]
    assert ["kscope-charts" in html for html in shown][-1]
    assert sum("kscope-charts" in html for html in shown) == 1
    assert len(ran.cards) == 1
    quiet = notebook.ok(f"%%kernelscope -q --charts\n{LAUNCH}")
    assert quiet.kinds == []
    inside = notebook.ok(f"%%time\n%%kernelscope --charts\n{LAUNCH}")
    assert sum("kscope-charts" in str(content) for kind, content in inside.messages if kind == "display_data") == 1


def test_a_stream_that_comes_in_several_messages_is_one_output(notebook: Any) -> None:
    ran = notebook.ok("import sys\nfor number in range(3):\n    print(number, flush=True)\nprint('e', file=sys.stderr)")
    assert (ran.kinds, ran.stdout, ran.stderr) == (["stream", "stream"], "0\n1\n2\n", "e\n")


def test_output_saves_the_recording(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope -o saved -n first\n{LAUNCH}")
    assert ran.kinds == ["stream", "card"]
    assert ran.stdout.startswith("kernelscope: wrote saved.kscope (")
    assert notebook.value("kernelscope.load('saved').name") == "'first'"


def test_an_error_of_the_cell_may_be_false_and_have_no_text(notebook: Any) -> None:
    notebook.ok("class Odd(Exception):\n    def __bool__(self): return False\n"
                "    def __str__(self): raise RuntimeError('no text')")
    notebook.run(f"%%kernelscope -o odd\n{LAUNCH}\nraise Odd")
    assert notebook.value("kernelscope.load('odd').rows('cells')[0]['status']") == "'error'"
    assert notebook.value("kernelscope.load('odd').rows('cells')[0]['error'][:5]") == "'Odd: '"


@pytest.mark.parametrize(("function", "said"), [
    ("show", "interrupted while the card was shown: %kernelscope report shows it"),
    ("progress", "interrupted: late.kscope was not written"),
])
def test_ctrl_c_after_the_cell_is_one_line(notebook: Any, function: str, said: str) -> None:
    notebook.ok("from unittest import mock\nimport kernelscope.commands.output\n"
                f"mock.patch.object(kernelscope.commands.output, {function!r}, side_effect=KeyboardInterrupt).start()")
    ran = notebook.ok(f"%%kernelscope -o late.kscope\n{LAUNCH}")
    notebook.ok("mock.patch.stopall()")
    assert ran.stderr == f"kernelscope: {said}\n"
    assert "callback" not in ran.stdout
    assert len(notebook.ok("%kernelscope report").cards) == 1


def test_a_file_that_cannot_be_written_is_one_line(notebook: Any) -> None:
    ran = notebook.ok("%%kernelscope -o nowhere/out\nx = 1\nx")
    assert ran.values == ["1"]
    assert ran.stderr == "kernelscope: cannot write out.kscope: there is no folder nowhere\n"
    assert len(ran.cards) == 1


def test_a_hostile_name_is_harmless(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope -n \"<img src=x onerror=alert(1)>\"\n{LAUNCH}")
    html = ran.cards[0]["text/html"]
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert "<img" not in html


def test_wrong_arguments_are_one_line_and_run_nothing(notebook: Any) -> None:
    ran = notebook.run("%%kernelscope --detail all\nprint('ran')")
    assert (ran.status, ran.reply["ename"], ran.stdout) == ("error", "UsageError", "")
    assert ran.stderr.startswith("UsageError: ")
    assert ran.stderr.endswith("ee %%kernelscope?\n")
    assert ran.stderr.count("\n") == 1
    assert "body is empty" in notebook.run("%%kernelscope\n").stderr


# ---- Other magics around and below ----


def test_time_around(notebook: Any) -> None:
    ran = notebook.ok(f"%%time\n%%kernelscope -n inside\n{LAUNCH}\n6 * 7")
    assert "Wall time" in ran.stdout
    assert (ran.values, len(ran.cards)) == (["42"], 1)
    assert f"In [{ran.reply['execution_count']}] inside" in ran.card


@pytest.mark.parametrize("error", ["1 / 0", "axpy[2, 4096](a, 2.0, a)", "x = = 1", "raise KeyboardInterrupt"])
def test_an_error_inside_time_is_shown_once(notebook: Any, error: str) -> None:
    plain = notebook.run(f"%%time\n{error}")
    ran = notebook.run(f"%%time\n%%kernelscope\n{LAUNCH}\n{error}")
    # %%time of IPython 8 shows an error of its body and does not fail.
    assert (ran.status, ran.reply.get("ename")) == (plain.status, plain.reply.get("ename"))
    assert [kind for kind in ran.kinds if kind != "stream"] == ["error", "card"]
    assert "kernelscope" not in ran.traceback.lower()


def test_capture_around_takes_the_card(notebook: Any) -> None:
    assert notebook.ok(f"%%capture held\n%%kernelscope\nprint('out')\n{LAUNCH}").messages == []
    assert notebook.value("held.stdout, '1 launch' in held.outputs[0].data['text/plain']") == r"('out\n', True)"


def test_timeit_below_is_one_recording(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope\n%%timeit -n 5 -r 2\n{LAUNCH}")
    assert "10 launches" in ran.card


def test_timeit_around_is_refused(notebook: Any) -> None:
    ran = notebook.run(f"%%timeit -n 5 -r 2\n%%kernelscope\n{LAUNCH}")
    assert ran.stderr == ("UsageError: %%timeit repeats its body, and each repetition would be a separate recording: "
                          "put %%kernelscope above %%timeit\n")


def test_a_recording_in_a_recording(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope -n outer\n%%kernelscope -n inner\n{LAUNCH}")
    assert ["inner" in ran.cards[0]["text/plain"], "outer" in ran.cards[1]["text/plain"]] == [True, True]
    assert all("1 launch" in card["text/plain"] for card in ran.cards)


def test_a_with_block_in_a_recorded_cell(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope\n{LAUNCH}\nwith kernelscope.record('part') as r:\n    {LAUNCH}")
    assert "2 launches" in ran.card
    assert notebook.value("len(r.recording.launches)") == "1"


def test_cells_run_by_code(notebook: Any) -> None:
    ran = notebook.ok(f"shell.run_cell('%%kernelscope -n by_code\\n{LAUNCH}\\n6 * 7').result")
    assert "42" in ran.values
    assert "by_code" in ran.card


# ---- Every cell ----


def test_on_records_every_cell_that_follows_and_off_stops(notebook: Any) -> None:
    assert notebook.ok("%kernelscope on").cards == []
    assert "1 launch" in notebook.ok(LAUNCH).card
    assert notebook.ok("x = 1").kinds == []
    assert notebook.ok("%kernelscope cells").kinds == ["card"]  # the table alone
    ran = notebook.run(f"{LAUNCH}\n1 / 0")
    assert ran.kinds == ["error", "card"]
    assert notebook.run("%%kernelscope --foo\nx = 1").cards == []
    assert "2 launches" in notebook.ok(f"{LAUNCH}\nshell.run_cell('{LAUNCH}');").card
    assert notebook.ok("%kernelscope off").cards == []
    assert notebook.ok(LAUNCH).cards == []
    assert notebook.ok("%kernelscope cells").card.count("In [") == 4


def test_a_cell_keeps_as_many_launches_as_asked_for(notebook: Any) -> None:
    loop = f"for n in range(5):\n    {LAUNCH}"
    card = notebook.ok(f"%%kernelscope --mode stop --capacity 2\n{loop}").card
    assert "2 launches" in card and "; mode stop, 2 launches kept, 3 lost" in " ".join(card.split())
    notebook.ok("%kernelscope on -q --detail launch --mode ring --capacity 1")
    assert notebook.ok(f"{LAUNCH}\n{LAUNCH}").messages == []
    notebook.ok("%kernelscope off")
    assert notebook.value("_kernelscope.metadata['detail'], "
                          "[_kernelscope.metadata['recorder'][name] for name in ('mode', 'kept', 'lost')]") == (
        "('launch', ['ring', 1, 1])")


@pytest.mark.parametrize("around", ["", "%%time\n", "%%kernelscope -n own\n%%time\n"])
def test_a_cell_of_its_own_is_recorded_once_while_on(notebook: Any, around: str) -> None:
    notebook.ok("%kernelscope on -q")
    heading = "" if "kernelscope" in around else "%%kernelscope -n own --detail launch\n"
    ran = notebook.ok(f"{around}{heading}{LAUNCH}")
    notebook.ok("%kernelscope off")
    assert "own" in ran.card
    assert notebook.ok("%kernelscope cells").card.count("In [") == 1


# ---- Problems of ours ----


@pytest.mark.parametrize(("method", "values"), [
    ("recorder.recorder.Recorder.start", 0), ("recorder.recorder.Recorder.end_cell", 0),
    ("recorder.recorder.Recorder.attach", 1), ("recording.build.build", 0),
])
def test_a_recorder_that_fails_costs_one_line(notebook: Any, method: str, values: int) -> None:
    notebook.ok("%kernelscope attach axpy")
    notebook.ok("from unittest import mock\n"
                f"broken = mock.patch('kernelscope.{method}', "
                "side_effect=RuntimeError('broken\\nhere'))\n"
                "broken.start();")
    ran = notebook.ok("%%kernelscope\n6 * 7")
    notebook.ok("broken.stop();")
    assert ran.values == ["42"]
    assert ran.stderr == "kernelscope: RuntimeError: broken here\n"
    assert len(ran.cards) == values


@pytest.mark.parametrize("options", ["", "-r"])
def test_a_card_that_fails_costs_one_line(notebook: Any, options: str) -> None:
    notebook.ok("from unittest import mock\nfrom kernelscope.recording.model import Recording\n"
                "broken = mock.patch.object(Recording, '_repr_html_', side_effect=RuntimeError('broken'))\n"
                "broken.start()")
    ran = notebook.ok(f"%%kernelscope {options}\n6 * 7")
    notebook.ok("broken.stop()")
    assert ran.values == ["42"]
    assert ran.stderr == "kernelscope: the card cannot be shown: RuntimeError: broken\n"
    assert notebook.value("len(_kernelscope.cells)") == "1"


# ---- Errors look as without a recording ----

FAIL = "axpy[2, 4096](a, 2.0, a)"


def comparable(traceback: str) -> str:
    """A traceback without its cell's number, and without the cell's first line, which is empty or a comment."""
    shown = re.sub(r"In\[\d+\]", "In[n]", traceback)
    return re.sub(r"^ +1 *#? *\n", "", shown, flags=re.MULTILINE)


@pytest.mark.parametrize("body", [
    FAIL,
    f"def caller():\n    {FAIL}\ncaller()",
    f"try:\n    {FAIL}\nexcept Exception as error:\n    raise ValueError('wrapped') from error",
    f"try:\n    {FAIL}\nexcept Exception:\n    1 / 0",
    "axpy[1, 1]('text')",
    "noop = cuda.jit(lambda x: undefined)\nnoop[1, 1](a)",
    f"async def caller():\n    {FAIL}\nawait caller()",
])
def test_the_traceback_is_that_of_the_cell_without_it(notebook: Any, body: str) -> None:
    plain = notebook.run(f"#\n{body}")
    ran = notebook.run(f"%%kernelscope\n{body}")
    assert "kernelscope" not in ran.traceback.lower()
    assert comparable(ran.traceback) == comparable(plain.traceback)
    assert [content["traceback"] for kind, content in ran.messages if kind == "error"] == [ran.reply["traceback"]]


def test_tb_and_last_traceback_are_clean_too(notebook: Any) -> None:
    notebook.run(f"%%kernelscope -q\n{FAIL}")
    assert "kernelscope" not in notebook.ok("%tb").traceback.lower()
    assert notebook.value("'kernelscope' in ''.join(__import__('traceback').format_tb(sys.last_traceback))") == "False"


def test_somebody_else_s_showtraceback_survives(notebook: Any) -> None:
    notebook.ok("seen = []\ndef theirs(*args, **kwargs):\n    seen.append(1)\n"
                "    type(shell).showtraceback(shell, *args, **kwargs)")
    notebook.ok("shell.showtraceback = theirs")
    notebook.run(f"%%kernelscope -q\n{FAIL}")
    assert notebook.value("shell.showtraceback is theirs, len(seen)") == "(True, 1)"
    notebook.ok("del shell.showtraceback")


def test_one_that_comes_during_the_cell_stays(notebook: Any) -> None:
    notebook.ok("%%kernelscope -q\nours = shell.showtraceback\ndef theirs(*args, **kwargs): ours(*args, **kwargs)\n"
                "shell.showtraceback = theirs")
    assert notebook.value("shell.showtraceback is theirs") == "True"
    assert "ZeroDivisionError" in notebook.run("1 / 0").traceback
    notebook.ok("del shell.showtraceback")


# ---- What a killed kernel left: %kernelscope recover ----

NEWER = "20250103-030405-999999-abcd"


def story() -> Handmade:
    return Handmade([Launch(0), Launch(1, is_open=True)], rows=rows_of_axpy())


@pytest.fixture
def state(notebook: Any, tmp_path: Path) -> Iterator[Path]:
    """The kernel's state folder, with a journal."""
    notebook.ok(f"import os; os.environ['XDG_STATE_HOME'] = {str(tmp_path)!r}")
    yield story().write(tmp_path / "kernelscope" / "journals").parent
    notebook.ok("del os.environ['XDG_STATE_HOME']")


def test_it_lists_shows_and_keeps_what_was_recovered(notebook: Any, state: Path) -> None:
    ran = notebook.ok("%kernelscope recover")
    assert f"{NAME}  " in ran.stdout and f"recovered {NAME}" in ran.stdout
    assert "1 launch unfinished: axpy" in ran.card
    assert notebook.value("_kernelscope.metadata['recovered']['launches']") == "1"
    assert (state / NAME).is_dir()


def test_it_writes_and_removes_when_it_is_told(notebook: Any, state: Path, tmp_path: Path) -> None:
    story().write(state, NEWER)
    ran = notebook.ok("%kernelscope recover")
    assert f"recovered {NEWER}" in ran.stdout and f"also there, %kernelscope recover NAME: {NAME}" in ran.stdout
    ran = notebook.ok(f"%kernelscope recover {NAME} --into '{tmp_path}/a b.kscope' --remove")
    assert f"wrote {tmp_path}/a b.kscope" in ran.stdout and f"removed {state / NAME}" in ran.stdout
    assert [path.name for path in state.iterdir()] == [NEWER]
    ran = notebook.ok(f"%kernelscope recover {state}")
    assert f"recovered {NEWER}" in ran.stdout


def test_a_new_kernel_says_that_there_is_something(notebook: Any, state: Path) -> None:
    notebook.ok("%unload_ext kernelscope")
    assert "a recording that was cut short is there: %kernelscope recover brings it back" in notebook.ok(
        "%load_ext kernelscope").stdout
    assert "cut short" not in notebook.ok("%load_ext kernelscope").stdout


@pytest.mark.slow
def test_a_kernel_that_died_is_brought_back_in_the_next(
    notebook: Any, new_kernel: Callable[[], Any], state: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    (state / NAME).rename(state.parent / NAME)
    monkeypatch.setenv("XDG_STATE_HOME", str(state.parents[1]))
    dying = new_kernel()
    assert "cut short" not in dying.ok("%load_ext kernelscope\n%kernelscope on").stdout
    dying.ok("axpy[2, 32](a, 2.0, a)")
    assert "(detail phases), each with a journal while it runs" in dying.ok("%kernelscope status").stdout
    assert list(state.iterdir()) == []
    dying.run_to_death("for _ in range(100): axpy[2, 32](a, 2.0, a)\nimport os; os.kill(os.getpid(), 9)")

    assert "%kernelscope recover brings it back" in notebook.ok("%reload_ext kernelscope").stdout
    card = notebook.ok("%kernelscope recover --remove").card
    assert "In [5] (unfinished)" in card and "100 launches" in card
    assert "no journals in" in notebook.ok("%kernelscope recover").stdout


def test_a_disk_that_does_not_allow_it_is_said_once(base: Path) -> None:
    assert recover.journal_for(None) == (True, None)
    assert recover.journal_for(f"{base}/a b") == (f"{base}/a b", None)
    assert list((base / "a b").iterdir()) == []
    base.joinpath("file").write_text("precious")
    where, problem = recover.journal_for(f"{base}/file")
    assert where is None and problem is not None and "file that is no folder; recording goes on in memory" in problem


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return default_folder()


def test_nothing_there_is_nothing_said(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recover.notice() is None
    assert recover.recover_here(parse_line("recover")[1]) is None
    assert "no journals in" in capsys.readouterr().out


def test_the_look_is_short(base: Path) -> None:
    for number in range(100):
        Handmade([]).write(base, f"20250102-030405-{number + 4_000_000}-abcd")
    told = recover.notice()
    assert told is not None and "recordings that were cut short are there" in told
    assert lines_run(recover.notice) < 200 * 100  # two hundred for each of them, as Pythons count them


def test_the_look_loads_nothing_large(run_python: Callable[..., Any], base: Path) -> None:
    story().write(base)
    code = """
import sys
import IPython.core.error
before = set(sys.modules)
from kernelscope.commands.recover import notice
assert notice() is not None
loaded = set(sys.modules) - before
assert not {"numpy", "pyarrow", "pandas"} & loaded, loaded
"""
    run_python(code, KERNELSCOPE_DRYRUN="")
