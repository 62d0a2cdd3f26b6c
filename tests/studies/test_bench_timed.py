"""A case as a timed loop: what runs when, what names mean, and what an error says. No framework is needed."""

from __future__ import annotations

import ast
import gc
import inspect
import statistics
import time
from pathlib import Path
from typing import Any

import pytest

from kernelscope.studies import process
from kernelscope.studies.bench import timing as timed
from kernelscope.studies.bench.timing import (
    FROZEN_BY_PYTHON,
    Batch,
    CaseError,
    TimedCase,
    Unavailable,
    frozen_garbage,
)


def case(statement: str = "log('loop')", **fields: Any) -> tuple[TimedCase, list[Any]]:
    """A case that is set up, and what it logs; each wait for the device is logged as well."""
    log: list[Any] = []
    made = TimedCase({"name": "mine", "statement": statement, **fields}, {"log": log.append, "np": None},
                     lambda: log.append("wait"))
    made.set_up()
    return made, log


def test_what_runs_when() -> None:
    made, log = case(setup="log('setup')", before="log('before')", after="log('after')")
    made.batch(2)
    # The wait comes after `after`: a stream that captures cannot be waited for.
    assert log == ["setup", "wait", "before", "loop", "loop", "after", "wait"]


def test_a_batch_without_a_frame_brings_its_caches_back_first() -> None:
    made, log = case()
    made.batch(40)
    assert log == ["wait", *["loop"] * 8, "wait", *["loop"] * 40, "wait"]
    log.clear()
    made.batch(40, moved=True)  # on another core there are none
    assert log == ["wait", *["loop"] * 20, "wait", *["loop"] * 40, "wait"]


def test_the_time_is_that_of_the_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0

    def passes(ns: int) -> None:
        nonlocal now
        now += ns

    monkeypatch.setattr(timed, "_now", lambda: now)
    monkeypatch.setattr(timed, "time_waited_ns", lambda: 0)
    made = TimedCase({"name": "mine", "statement": "passes(2)", "before": "passes(500)", "after": "passes(70)"},
                     {"passes": passes, "np": None}, lambda: passes(9))
    made.set_up()
    assert made.batch(5)[:2] == (10, 9)


def test_the_collector_has_run_and_is_off_in_the_loops_and_on_again() -> None:
    assert gc.isenabled()
    made, log = case("log(isenabled())", setup="from gc import isenabled", before="log(isenabled())",
                     after="log(isenabled())")
    made.batch(1)
    assert log == ["wait", False, False, False, "wait"]
    assert gc.isenabled()
    failing, _ = case("1 / 0")
    with pytest.raises(CaseError):
        failing.batch(1)
    assert gc.isenabled()
    gc.disable()
    try:
        made.batch(1)
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("statement", [
    "log(value)",
    "total = value; log(total)",
    "value += 1; log(value - 1 - round_ + 1); round_ += 1",
    "log([value for _ in (1,)][0])",
    "log((lambda: value)())",
    "if value:\n    log(\n        value)",
    "for value_ in (value,):\n    log(value_)",
    "def inner():\n    return value\nlog(inner())",
    "global value\nlog(value)",
    "import math as maths; log(maths.floor(value))",
    "log(abs(-value))",
    "log(value);",
])
def test_names_of_a_statement(statement: str) -> None:
    made, log = case(statement, setup="value = 7\nround_ = 1", before="log(None)", after="log(None)")
    made.batch(2)
    assert log == ["wait", None, 7, 7, None, "wait"]


def test_names_that_come_before_each_batch() -> None:
    made, log = case("log(number)", before="number = number + 1 if 'number' in globals() else 1", after="number *= 10")
    made.batch(1)
    made.batch(1)
    assert [entry for entry in log if entry != "wait"] == [1, 11]


def test_a_function_takes_the_place_of_the_statement() -> None:
    log: list[Any] = []
    made = TimedCase({"name": "live"}, {}, lambda: None, function=lambda: log.append(1))
    made.set_up()
    made.batch(3)
    assert log == [1] * 5  # two of them to warm


def test_frameworks_can_read_the_source_of_what_a_setup_defines() -> None:
    made, _ = case("f", setup="x = 1\ndef f():\n    return 'µ'\n")
    assert inspect.getsource(made.names["f"]) == "def f():\n    return 'µ'\n"


@pytest.mark.parametrize(("fields", "said"), [
    ({"setup": "x = 1\nlog(nothing)"},
     "case 'mine', setup, line 2 (log(nothing)): NameError: name 'nothing' is not defined"),
    ({"before": "1 / 0"}, "case 'mine', before, line 1 (1 / 0): ZeroDivisionError: division by zero"),
    ({"after": "raise ValueError"}, "case 'mine', after, line 1 (raise ValueError): ValueError"),
    ({"statement": "log(1)\n\nlog(nothing)"},
     "case 'mine', statement, line 3 (log(nothing)): NameError: name 'nothing' is not defined"),
    # What the statement calls is where it went wrong.
    ({"setup": "def f():\n    raise KeyError('x')", "statement": "f()"},
     "case 'mine', setup, line 2 (raise KeyError('x')): KeyError: 'x'"),
    ({"statement": "raise SystemExit(3)"}, "case 'mine', statement, line 1 (raise SystemExit(3)): SystemExit: 3"),
    ({"setup": "raise RuntimeError('\\x1b[1mbold\\x1b[0m\\n two')"}, ": RuntimeError: bold two"),
    ({"setup": "raise RuntimeError('x' * 5000)"}, "xxx ..."),
])
def test_errors_say_where(fields: dict[str, str], said: str) -> None:
    with pytest.raises(CaseError) as caught:
        case(**fields)[0].batch(1)
    assert str(caught.value).endswith(said)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(("fields", "said"), [
    ({"statement": "log("}, "case 'mine', statement, line 1 (log(): SyntaxError: '(' was never closed"),
    ({"setup": "x = 1\n y = 2"}, "case 'mine', setup, line 2 (y = 2): IndentationError"),
    ({"statement": "return 1"}, "'return' outside function"),
    ({"statement": "break"}, "'break' outside loop"),
    ({"statement": "yield 1"}, "'yield' outside function"),
    ({"statement": "x = '\0'"}, "case 'mine', statement"),
    ({"statement": "  "}, "case 'mine' has no statement"),
])
def test_what_is_no_statement_is_refused_before_anything_runs(fields: dict[str, str], said: str) -> None:
    with pytest.raises(CaseError, match=r"case 'mine'") as caught:
        TimedCase({"name": "mine", "statement": "log", **fields}, {}, lambda: None)
    assert said in str(caught.value)


def test_what_a_target_lacks_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match="^no graphs before 0.30$"):
        case(setup="raise Unavailable('no graphs before 0.30')")
    with pytest.raises(Unavailable, match="^needs no_such_module: ModuleNotFoundError: No module named"):
        case(needs=["no_such_module"])
    assert case(needs=["math"])[0].batch(1)
    (tmp_path / "breaks_on_import.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Unavailable, match="whose import raised ZeroDivisionError: division by zero"):
        case(needs=["breaks_on_import"])


def test_a_failed_loop_is_followed_by_what_comes_after_it() -> None:
    made, log = case("1 / 0", before="log('begin')", after="log('end'); 1 / 0")
    with pytest.raises(CaseError, match="statement, line 1"):
        made.batch(1)
    assert log == ["wait", "begin", "end"]


def test_an_interrupt_of_a_live_case_passes_untouched() -> None:
    for field in ("setup", "before", "statement", "after"):
        with pytest.raises(KeyboardInterrupt):
            case(**{field: "raise KeyboardInterrupt"})[0].batch(1)


def test_a_device_that_fails_is_said_with_the_case() -> None:
    def fails() -> None:
        raise RuntimeError("an illegal memory access")

    made = TimedCase({"name": "mine", "statement": "1"}, {}, fails)
    with pytest.raises(CaseError, match="case 'mine': the device failed: RuntimeError: an illegal memory access"):
        made.batch(1)


def test_frozen_garbage_is_thawed_unless_it_was_frozen() -> None:
    assert gc.get_freeze_count() <= FROZEN_BY_PYTHON
    with frozen_garbage():
        assert gc.get_freeze_count() > 1000
        with frozen_garbage():
            pass
        assert gc.get_freeze_count() > 1000
    assert gc.get_freeze_count() <= FROZEN_BY_PYTHON


class Stepped(TimedCase):
    """A case whose times are given: nanoseconds a loop for each batch, and the wait that follows."""

    def __init__(self, ns: Any, sync: Any = lambda loops: 0, **fields: Any) -> None:
        super().__init__({"name": "stepped", "statement": "1", **fields}, {}, lambda: None)
        self.ns, self.sync, self.asked = ns, sync, []

    def batch(self, loops: int, moved: bool = False) -> Batch:
        self.asked.append(loops)
        return Batch(int(self.ns(len(self.asked), loops) * loops), int(self.sync(loops)), 0, 0)


def test_warm_when_the_last_batches_agree() -> None:
    warm = timed.warm_up(Stepped(lambda n, loops: 50_000 if n == 1 else 10_000), 10)
    assert warm == (1000, 6, True, 10_000, 0, "")


def test_warm_only_when_it_no_longer_gets_faster() -> None:
    stepped = Stepped(lambda n, loops: 10_000 * (1 + 3 * 0.8 ** n))
    warm = timed.warm_up(stepped, 10)
    assert warm.stable
    assert warm.warm_batches > 8
    assert warm.ns_per_loop < 10_700


def test_never_stable_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed, "_LIMIT_S", 0.05)
    stepped = Stepped(lambda n, loops: time.sleep(0.002) or 10_000 * 1.1 ** n)
    assert not timed.warm_up(stepped, 10).stable


@pytest.mark.parametrize(("ns", "most", "loops", "limited"), [
    (10_000, None, 1000, ""), (10_000, 200, 200, "most_loops"), (100, None, 100_000, ""), (50e6, None, 1, ""),
    (10_000, 1, 1, "most_loops"), (0.5, None, 10_000_000, ""),
])
def test_loops_make_the_batch_s_time(ns: float, most: int | None, loops: int, limited: str) -> None:
    stepped = Stepped(lambda n, loops: ns, most_loops=most)
    warm = timed.warm_up(stepped, 10)
    assert (warm.loops, warm.limited) == (loops, limited)
    assert max(stepped.asked) <= (most or 1e9)


def queue(loops: int, host: float, device: float, holds: int) -> float:
    """The host's time a launch, where the device takes longer and its queue holds so many."""
    return host + max(0.0, loops - holds) * (device - host) / loops


def test_a_full_queue_is_not_what_is_timed() -> None:
    stepped = Stepped(lambda n, loops: queue(loops, 5_000, 30_000, 100), lambda loops: min(loops, 100) * 25_000)
    warm = timed.warm_up(stepped, 10)
    assert warm.limited == "queue"
    assert 32 <= warm.loops <= 110
    assert queue(warm.loops, 5_000, 30_000, 100) < 1.15 * 5_000
    assert warm.sync_share > 1


def test_a_slow_device_with_room_in_its_queue_is_no_reason_for_fewer_loops() -> None:
    stepped = Stepped(lambda n, loops: queue(loops, 20_000, 30_000, 1000), lambda loops: loops * 10_000)
    warm = timed.warm_up(stepped, 10)
    assert (warm.loops, warm.limited) == (500, "")


@pytest.mark.parametrize("path", sorted(process.BENCH.glob("*.py")), ids=lambda path: path.name)
def test_old_pythons_can_read_it(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


@pytest.mark.parametrize("path", sorted(process.BENCH.glob("*.py")), ids=lambda path: path.name)
def test_it_imports_nothing_that_a_target_may_lack(path: Path) -> None:
    import sys

    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [str(node.module)]
        for name in names:
            assert name.split(".")[0] in {*sys.stdlib_module_names, "numpy"}, f"{path.name} imports {name}"


@pytest.mark.slow
def test_time_that_others_had_the_processor_is_taken_off() -> None:
    """Two threads of other processes want the same core: a batch waits, and says how long."""
    import os
    import subprocess
    import sys

    if timed.time_waited_ns() == 0:
        pytest.skip("this kernel does not count it")
    allowed = os.sched_getaffinity(0)
    core = max(allowed)
    made, _ = case("start = thread_time_ns()\nfor _ in range(20000): pass\ncpu_ns.append(thread_time_ns() - start)",
                   setup="from time import thread_time_ns\ncpu_ns = []", before="cpu_ns.clear()")
    spin = f"import os; os.sched_setaffinity(0, [{core}])\nprint(flush=True)\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for other in others:
            assert other.stdout is not None
            other.stdout.readline()
        os.sched_setaffinity(0, [core])
        busy = [(made.batch(60), sum(made.names["cpu_ns"])) for _ in range(3)]
    finally:
        os.sched_setaffinity(0, allowed)
        for other in others:
            other.kill()
            other.communicate()
    assert all(batch.waited_ns > 0.3 * batch.host_ns for batch, _ in busy), "two others take half of the time and more"
    assert 0.9 < statistics.median(batch.host_ns / cpu_ns for batch, cpu_ns in busy) < 1.1


def test_a_wait_for_something_else_is_time_of_the_host() -> None:
    made, _ = case("sleep(0.02)", setup="from time import sleep")
    batch = made.batch(2)
    assert batch.host_ns >= 38e6


def test_threads_of_the_target_s_own_are_time_of_the_host() -> None:
    """What a version gives to a thread of its own is what its launch costs, also where both share a core."""
    import os

    allowed = os.sched_getaffinity(0)
    made, _ = case("go.release(); done.acquire()", setup="""
from threading import Lock, Thread
from time import thread_time_ns
took_ns = []
go, done = Lock(), Lock()
go.acquire(), done.acquire()
def work():
    while True:
        go.acquire()
        start = thread_time_ns()
        for _ in range(200_000):
            pass
        took_ns.append(thread_time_ns() - start)
        done.release()
Thread(target=work, daemon=True).start()
""")
    os.sched_setaffinity(0, [max(allowed)])  # of this thread; the other one begins later, and there
    try:
        batch = made.batch(20)
    finally:
        os.sched_setaffinity(0, allowed)
    assert batch.host_ns > 0.9 * sum(made.names["took_ns"][-20:])


@pytest.mark.parametrize(("waits", "own_threads", "outer", "expected"), [
    ((0, 4_000_000), (5, 5), 10_100_000, (6_000_000, 4_000_000)),
    # 3 ms of the 4 were waited outside of the loops.
    ((0, 4_000_000), (5, 5), 13_300_000, (9_000_000, 1_000_000)),
    ((0, 4_000_000), (5, 5), 14_900_000, (10_000_000, 0)),
    ((0, 0), (5, 5), 10_100_000, (10_000_000, 0)),
    ((5, 5), (5, 5), 99_000_000, (10_000_000, 0)),
    # The process's own threads had the core for 4 ms of the 6.
    ((0, 6_000_000), (1_000_000, 5_000_000), 10_100_000, (8_000_000, 2_000_000)),
])
def test_only_waits_in_the_loops_for_other_processes_are_subtracted(
        monkeypatch: pytest.MonkeyPatch, waits: tuple[int, int], own_threads: tuple[int, int], outer: int,
        expected: tuple[int, int]) -> None:
    made, _ = case()
    for name, readings in (("time_waited_ns", waits), ("other_threads_ns", own_threads), ("_now", (0, outer))):
        monkeypatch.setattr(timed, name, iter(readings).__next__)
    assert made._timed(lambda *_: 10_000_000, [], 1) == expected


def test_a_case_that_replaces_the_clock_is_still_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed.time, "perf_counter_ns", lambda: 7)
    case = TimedCase({"name": "x", "statement": "pass"}, {}, lambda: None)
    case.set_up()
    assert case.batch(10_000).host_ns > 0
