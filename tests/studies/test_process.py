"""A benchmark process that crashes, hangs, prints, lies: an error that says what, and nothing left of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fake_bench
import pytest

from kernelscope.studies.process import BenchProcess, ProcessError, RefusedError, ask_all, close_all, kill_all

Start = Callable[..., BenchProcess]
HELLO = {"do": "hello"}
BATCH = {"do": "batch", "case": "0 args", "loops": 10}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[BenchProcess] = []

    def make(label: str = "fake", **behaviour: Any) -> BenchProcess:
        member = fake_bench.member(tmp_path, label, **behaviour)
        started.append(BenchProcess(member.command, member.environ, member.cwd))
        return started[-1]

    yield make
    for process in started:
        process.kill()
        assert not alive(process.pid)


def alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return "State:\tZ" not in status


def test_it_answers(start: Start) -> None:
    process = start(ns=3000)
    assert process.ask(HELLO, 20)["framework"] == "numba-cuda"
    assert process.ask(BATCH, 20) == {"ok": True, "host_ns": 30_000, "sync_ns": 100, "waited_ns": 7,
                                      "reference_ns": 50_000, "core": None}


def test_it_prints_as_it_likes(start: Start) -> None:
    process = start(prints=['{"ok": true, "host_ns": 1}', "x" * 100_000, "last words"])
    assert process.ask(BATCH, 20)["host_ns"] == 40_000
    assert process.tail().endswith("last words")
    assert len(process.tail()) <= 400


def test_a_crash_is_told_with_its_signal_and_what_was_printed(start: Start) -> None:
    process = start(fails=[["crash", "batch", None, None]])
    with pytest.raises(ProcessError) as caught:
        process.ask(BATCH, 20)
    assert str(caught.value) == (
        r"crashed with SIGSEGV while timing '0 args'; it printed last: about to crash\x1b[31m")


def test_an_exit_is_told_with_its_code(start: Start) -> None:
    process = start(fails=[["leave", "prepare", None, None]])
    with pytest.raises(ProcessError, match=r"^ended with exit code 7 while preparing 'odd'; it printed last: "
                                           r"Traceback \(most recent call last\): \| RuntimeError: no more$"):
        process.ask({"do": "prepare", "case": {"name": "odd"}}, 20)
    with pytest.raises(ProcessError, match="it has ended"):
        process.ask(HELLO, 20)


def test_a_hang_is_ended_with_all_that_it_started(start: Start, tmp_path: Path) -> None:
    process = start(fails=[["hang", "batch", None, None]])
    process.ask(HELLO, 20)
    with pytest.raises(ProcessError, match="^gave no answer within 1 s while timing '0 args', and was stopped$"):
        process.ask(BATCH, 1)
    child = int((tmp_path / "fake" / "child").read_text())
    until = time.monotonic() + 60
    while alive(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not alive(child)


def test_an_answer_that_is_none_ends_it(start: Start) -> None:
    process = start(fails=[["nonsense", "batch", None, None]])
    with pytest.raises(ProcessError, match="answered what is no answer while timing '0 args': {not json"):
        process.ask(BATCH, 20)
    assert not alive(process.pid)


def test_numbers_that_cannot_be_end_it(start: Start) -> None:
    process = start(fails=[["lie", "batch", None, None]])
    answer = process.ask(BATCH, 20)
    with pytest.raises(ProcessError, match="answered host_ns=-5 while timing '0 args'"):
        process.number(answer, "host_ns", 1)
    assert not alive(process.pid)


@pytest.mark.parametrize("value", ["4", None, True, float("nan"), float("inf"), [1], 2.5])
def test_a_number_is_a_whole_number(start: Start, value: Any) -> None:
    with pytest.raises(ProcessError, match="answered loops="):
        start().number({"loops": value}, "loops", 1)


def test_a_refusal_leaves_it_at_work(start: Start) -> None:
    process = start(fails=[["refuse", "prepare", None, None], ["unavailable", "batch", "1 args", None]])
    with pytest.raises(RefusedError, match="NameError: nobody") as caught:
        process.ask({"do": "prepare", "case": {"name": "odd"}}, 20)
    assert caught.value.kind == "error"
    with pytest.raises(RefusedError, match="callbacks") as caught:
        process.ask({**BATCH, "case": "1 args"}, 20)
    assert caught.value.kind == "unavailable"
    assert process.ask(BATCH, 20)["host_ns"] == 40_000


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="cannot start /nowhere/python: No such file"):
        BenchProcess(["/nowhere/python"], {}, tmp_path)


def test_several_are_asked_side_by_side(start: Start) -> None:
    processes = [start(f"fake{number}", meets=4) for number in range(4)]
    ask_all(dict.fromkeys(processes, HELLO), 20)
    answers = ask_all(dict.fromkeys(processes, BATCH), 60)
    assert [answers[process]["sync_ns"] for process in processes] == [100] * 4  # type: ignore[index]


def test_one_that_fails_does_not_keep_the_others(start: Start) -> None:
    good, bad = start("good"), start("bad", fails=[["crash", "hello", None, None]])
    answers = ask_all({bad: HELLO, good: HELLO}, 20)
    assert isinstance(answers[bad], ProcessError)
    assert isinstance(answers[good], dict)


def test_a_long_request_is_sent_whole(start: Start) -> None:
    process = start()
    answer = process.ask({"do": "prepare", "case": {"name": "long", "setup": "x" * 1_000_000}}, 20)
    assert answer["loops"] == 2500


def test_closing_lets_them_say_good_bye(start: Start, tmp_path: Path) -> None:
    processes = [start("one"), start("two")]
    ask_all(dict.fromkeys(processes, HELLO), 20)
    close_all(processes)
    assert sorted(row["label"] for row in fake_bench.done(tmp_path) if row["do"] == "bye") == ["one", "two"]
    assert not any(alive(process.pid) for process in processes)
    close_all(processes)


def test_a_second_ctrl_c_leaves_none(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = [start(f"fake{number}") for number in range(3)]
    original, interrupts = BenchProcess.kill, iter([None, KeyboardInterrupt()])

    def kill(self: BenchProcess) -> None:
        error = next(interrupts, None)
        if error:
            raise error
        original(self)

    monkeypatch.setattr(BenchProcess, "kill", kill)
    with pytest.raises(KeyboardInterrupt):
        kill_all(processes)
    assert not any(alive(process.pid) for process in processes)


def test_one_that_nobody_holds_ends(tmp_path: Path) -> None:
    member = fake_bench.member(tmp_path)
    process = BenchProcess(member.command, member.environ, member.cwd)
    process.ask(HELLO, 20)
    popen = process._process
    process._output.close()
    del process
    assert popen.wait(60) == 0


def test_a_crash_that_says_where_is_told_from_there(start: Start) -> None:
    process = start(prints=["before", "Fatal Python error: Segmentation fault", "", "Current thread (most recent call "
                            "first):", 'File "launch.py", line 3 in launch', *["other"] * 20, "Extension modules: a"])
    process.ask(HELLO, 20)
    process.ask(BATCH, 20)
    assert process.tail() == ('Fatal Python error: Segmentation fault | Current thread (most recent call first): | '
                              'File "launch.py", line 3 in launch | other')
