"""`%%kernelscope` in a real kernel: the cell is as it would be without it, and its card comes after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

LAUNCH = "axpy[2, 32](a, 2.0, a)"


# ---- A recorded cell is the cell itself ----


@pytest.mark.slow
def test_output_value_and_card_in_this_order(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope\nprint('out')\n{LAUNCH}\n6 * 7")
    assert ran.kinds == ["stream", "execute_result", "card"]
    assert ran.stdout == "out\n"
    assert ran.values == ["42"]
    assert set(ran.cards[0]) == {"text/plain", "text/html"}
    assert "Launches: 1" in ran.card
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


def test_await_at_top_level(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope\n{LAUNCH}\nawait asyncio.sleep(0.01, 'slept')")
    assert ran.kinds == ["execute_result", "card"]
    assert ran.values == ["'slept'"]
    assert "Launches: 1" in ran.card


def test_future_imports_work(notebook: Any) -> None:
    ran = notebook.ok("%%kernelscope -q\nfrom __future__ import annotations\n"
                      "def f(x: nothing): pass\nf.__annotations__")
    assert ran.values == ["{'x': 'nothing'}"]


def test_a_semicolon_silences_the_value_only(notebook: Any) -> None:
    assert notebook.ok("%%kernelscope\n6 * 7;").kinds == ["card"]


def test_a_magic_line_and_a_shell_command_inside(notebook: Any) -> None:
    assert notebook.ok("%%kernelscope -q\nx = %pwd\n!echo shell").stdout.split() == ["shell"]


def test_an_indented_cell_is_dedented(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope\n\n    # a comment\n    {LAUNCH}\n    if True:\n        !echo shell\n    6 * 7")
    assert (ran.stdout.split(), ran.values) == (["shell"], ["42"])
    assert "Launches: 1" in ran.card
    failing = notebook.run("%%kernelscope -q\n\n    x = 1\n    1 / 0")
    assert failing.reply["ename"] == "ZeroDivisionError"
    assert "----> 4 1 / 0" in failing.traceback


@pytest.mark.parametrize(("body", "value"), [
    ("    pwd", "os.getcwd()"), ("    %time 6 * 7", "42"), ("    %%time\n    6 * 7", "42"), ("%%!\necho hi", "['hi']"),
    ("\n\n  hidden = 6\n  hidden * 7", "42"),
])
def test_ipython_s_own_syntax_is_read_as_in_a_cell_of_its_own(notebook: Any, body: str, value: str) -> None:
    notebook.ok("import os")
    ran = notebook.ok(f"%%kernelscope\n{body}")
    assert ran.values == [notebook.value(value)]
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
    assert "Launches: 1" in ran.card
    assert "(error)" in ran.card


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
cell, wrapped = sys.argv[2:]
if wrapped == "always":
    shell.run_line_magic("kernelscope", "on --no-journal")

def run():
    shell.run_cell(cell)

for _ in range(2):
    lines = lines_of(run)
# What starts and stops recordings; making and showing them is not of this.
files = ("recorder.py", "session.py", "tracebacks.py")
lines = [line for line in lines if Path(line[0]).name in files]
assert len(lines) > 150, len(lines)
for line in lines:
    try:
        interrupted_at(line, run)
    except AssertionError:  # IPython, or the magic, says it in a line, and the cell goes on
        pass
    assert Session.active is None, line
shell.run_cell(cell)
recording = shell.user_ns["_kernelscope"]
assert recording.cells.status.tolist() == ["ok"]
"""


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "wrapped"), [
    ("%%kernelscope -q\n1 + 1;", ""), ("%%capture\n%%kernelscope -q\n1 + 1;", ""), ("1 + 1;", "always")])
def test_ctrl_c_while_a_recording_starts_or_stops_leaves_none(run_python: Any, cell: str, wrapped: str) -> None:
    """At each line of ours that does so; the cell's end is the end of its recording whatever happens."""
    run_python(SHELL, str(Path(__file__).resolve().parents[1] / "helpers"), cell, wrapped)


def test_sys_exit_in_a_cell(notebook: Any) -> None:
    ran = notebook.run("%%kernelscope\nsys.exit(3)")
    assert (ran.status, ran.reply["ename"]) == ("error", "SystemExit")
    assert ran.kinds.count("card") == 1


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
    assert notebook.ok("%%kernelscope -r -q\nx = 1").kinds == []
    assert notebook.value("_ is _kernelscope") == "True"


def test_return_after_an_error_shows_the_card(notebook: Any) -> None:
    ran = notebook.run("%%kernelscope -r\n1 / 0")
    assert ran.kinds == ["error", "card"]


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


def test_output_saves_the_recording(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope -o saved -n first\n{LAUNCH}")
    assert ran.kinds == ["stream", "card"]
    assert ran.stdout.startswith("kernelscope: wrote saved.kscope (")
    assert notebook.value("kernelscope.load('saved').name") == "'first'"


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


def test_an_empty_cell_is_a_usage_error(notebook: Any) -> None:
    ran = notebook.run("%%kernelscope\n")
    assert (ran.status, ran.reply["ename"]) == ("error", "UsageError")
    assert "body is empty" in ran.stderr


# ---- Other magics around and below ----


def test_time_below(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope\n\n%%time\n{LAUNCH}\n6 * 7")
    assert "Wall time" in ran.stdout
    assert (ran.values, len(ran.cards)) == (["42"], 1)
    assert "Launches: 1" in ran.card


def test_time_around(notebook: Any) -> None:
    ran = notebook.ok(f"%%time\n%%kernelscope -n inside\n{LAUNCH}\n6 * 7")
    assert "Wall time" in ran.stdout
    assert (ran.values, len(ran.cards)) == (["42"], 1)
    assert f"In [{ran.reply['execution_count']}] inside" in ran.card


def test_time_around_takes_the_returned_recording(notebook: Any) -> None:
    ran = notebook.ok(f"%%time\n%%kernelscope -r\n{LAUNCH}")
    assert len(ran.cards) == 1
    assert notebook.value("_ is _kernelscope") == "True"


@pytest.mark.parametrize("error", ["1 / 0", "axpy[2, 4096](a, 2.0, a)", "x = = 1", "raise KeyboardInterrupt"])
def test_an_error_inside_time_is_shown_once(notebook: Any, error: str) -> None:
    plain = notebook.run(f"%%time\n{error}")
    ran = notebook.run(f"%%time\n%%kernelscope\n{LAUNCH}\n{error}")
    # %%time of IPython 8 shows an error of its body and does not fail.
    assert (ran.status, ran.reply.get("ename")) == (plain.status, plain.reply.get("ename"))
    assert [kind for kind in ran.kinds if kind != "stream"] == ["error", "card"]
    assert "kernelscope" not in ran.traceback.lower()


def test_an_error_inside_can_be_caught(notebook: Any) -> None:
    ran = notebook.ok("try:\n    shell.run_cell_magic('kernelscope', '-q', '1 / 0')\n"
                      "except ZeroDivisionError:\n    print('caught')")
    assert "caught" in ran.stdout


def test_capture_around_takes_the_card(notebook: Any) -> None:
    assert notebook.ok(f"%%capture held\n%%kernelscope\nprint('out')\n{LAUNCH}").messages == []
    assert notebook.value("held.stdout, 'Launches: 1' in held.outputs[0].data['text/plain']") == r"('out\n', True)"


def test_capture_below_leaves_the_card(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope\n%%capture held\nprint('out')\n{LAUNCH}")
    assert ran.kinds == ["card"]


def test_timeit_below_is_one_recording(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope\n%%timeit -n 5 -r 2\n{LAUNCH}")
    assert "Launches: 10" in ran.card


def test_timeit_around_is_refused(notebook: Any) -> None:
    ran = notebook.run(f"%%timeit -n 5 -r 2\n%%kernelscope\n{LAUNCH}")
    assert ran.stderr == ("UsageError: %%timeit repeats its body, and each repetition would be a separate recording: "
                          "put %%kernelscope above %%timeit\n")


def test_a_recording_in_a_recording(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope -n outer\n%%kernelscope -n inner\n{LAUNCH}")
    assert ["inner" in ran.cards[0]["text/plain"], "outer" in ran.cards[1]["text/plain"]] == [True, True]
    assert all("Launches: 1" in card["text/plain"] for card in ran.cards)


def test_a_with_block_in_a_recorded_cell(notebook: Any) -> None:
    ran = notebook.ok(f"%%kernelscope\n{LAUNCH}\nwith kernelscope.record('part') as r:\n    {LAUNCH}")
    assert "Launches: 2" in ran.card
    assert notebook.value("len(r.recording.launches)") == "1"


def test_cells_run_by_code(notebook: Any) -> None:
    ran = notebook.ok(f"shell.run_cell('%%kernelscope -n by_code\\n{LAUNCH}\\n6 * 7').result")
    assert "42" in ran.values
    assert "by_code" in ran.card


def test_a_cell_in_a_function_s_thread(notebook: Any) -> None:
    ran = notebook.ok("%%kernelscope\nimport threading\n"
                      f"threads = [threading.Thread(target=lambda: {LAUNCH}) for _ in range(3)]\n"
                      "for t in threads: t.start()\nfor t in threads: t.join()")
    assert "Launches: 3" in ran.card


# ---- Every cell ----


def test_on_records_every_cell_that_follows_and_off_stops(notebook: Any) -> None:
    assert notebook.ok("%kernelscope on").cards == []
    assert "Launches: 1" in notebook.ok(LAUNCH).card
    assert notebook.ok("x = 1").kinds == []
    assert notebook.ok("%kernelscope cells").kinds == ["card"]  # the table alone
    ran = notebook.run(f"{LAUNCH}\n1 / 0")
    assert ran.kinds == ["error", "card"]
    assert notebook.ok("%kernelscope off").cards == []
    assert notebook.ok(LAUNCH).cards == []
    assert len(notebook.ok("%kernelscope cells").card.splitlines()) == 2 + 3


def test_on_takes_quiet_and_detail(notebook: Any) -> None:
    notebook.ok("%kernelscope on -q --detail launch")
    assert notebook.ok(LAUNCH).messages == []
    notebook.ok("%kernelscope off")
    assert notebook.value("_kernelscope.metadata['detail'], len(_kernelscope.launches)") == "('launch', 1)"


def test_a_cell_keeps_as_many_launches_as_asked_for(notebook: Any) -> None:
    loop = f"for _ in range(5):\n    {LAUNCH}"
    card = notebook.ok(f"%%kernelscope --mode stop --capacity 2\n{loop}").card
    assert "Launches: 2" in card and "; mode stop, 2 launches kept, 3 lost" in " ".join(card.split())
    notebook.ok("%kernelscope on -q --mode ring --capacity 1")
    notebook.ok(f"{LAUNCH}\n{LAUNCH}")
    notebook.ok("%kernelscope off")
    assert notebook.value("[_kernelscope.metadata['recorder'][name] for name in ('mode', 'kept', 'lost')]") == (
        "['ring', 1, 1]")


@pytest.mark.parametrize("around", ["", "%%time\n", "%%kernelscope -n own\n%%time\n"])
def test_a_cell_of_its_own_is_recorded_once_while_on(notebook: Any, around: str) -> None:
    notebook.ok("%kernelscope on -q")
    heading = "" if "kernelscope" in around else "%%kernelscope -n own --detail launch\n"
    ran = notebook.ok(f"{around}{heading}{LAUNCH}")
    notebook.ok("%kernelscope off")
    assert "own" in ran.card
    assert len(notebook.ok("%kernelscope cells").card.splitlines()) == 2 + 1


def test_a_cell_inside_a_cell_is_recorded_once_while_on(notebook: Any) -> None:
    notebook.ok("%kernelscope on")
    ran = notebook.ok(f"{LAUNCH}\nshell.run_cell('{LAUNCH}');")
    notebook.ok("%kernelscope off")
    assert "Launches: 2" in ran.card


def test_a_wrong_line_is_not_recorded_while_on(notebook: Any) -> None:
    notebook.ok("%kernelscope on")
    assert notebook.run("%%kernelscope --foo\nx = 1").cards == []
    notebook.ok("%kernelscope off")
    assert "no cell" in notebook.ok("%kernelscope cells").stdout


# ---- Problems of ours ----


@pytest.mark.parametrize(("method", "values"), [
    ("Recorder.start", 0), ("Recorder.end_cell", 0), ("Recorder.attach", 1), ("build", 0),
])
def test_a_recorder_that_fails_costs_one_line(notebook: Any, method: str, values: int) -> None:
    notebook.ok("%kernelscope attach axpy")
    notebook.ok("from unittest import mock\n"
                f"broken = mock.patch('kernelscope.recorder.recorder.{method}', "
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
