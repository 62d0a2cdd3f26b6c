"""What many threads do to the recorder at once, checked without a test framework and without NumPy.

`python at_once.py FILE` checks the extension module in FILE, with any interpreter that it is compiled for; the tests
call the same functions with this interpreter's.
"""

from __future__ import annotations

import array
import importlib.machinery
import importlib.util
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

THREADS = 8
EACH = 20_000

Columns = dict[str, "array.array[int]"]


def columns(ring: Any, since: int = 0) -> Columns:
    """The launches of a ring that have ended."""
    return {name: array.array("q" if name.endswith("_ns") or name == "number" else "i", bytes(column))
            for name, column in ring.columns(since).items()}


def run(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Run `work` in so many threads, which all begin at the same time; what one raises is raised here."""
    barrier, problems = threading.Barrier(threads), []

    def body(number: int) -> None:
        try:
            barrier.wait(120)
            work(number)
        except BaseException as problem:
            problems.append(problem)

    running = [threading.Thread(target=body, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if problems:
        raise problems[0]


def per_thread(found: Columns, name: str) -> dict[int, list[int]]:
    """The values of a column by thread, in the order of the rows."""
    values: dict[int, list[int]] = {}
    for thread, value in zip(found["site"], found[name], strict=True):
        values.setdefault(thread, []).append(value)
    return values


def serve(core: Any, ring: Any) -> None:
    """Give each thread that launches a state, numbered as they come."""
    held, made, lock = threading.local(), [], threading.Lock()

    def state() -> Any:
        if not hasattr(held, "state"):
            with lock:
                held.state = core.State(ring, len(made))
                made.append(held.state)
        return held.state

    ring.new_state = state


def hooked(core: Any, function: Callable[..., Any], ring: Any) -> tuple[Any, Callable[..., Any]]:
    """A hook on a function, and what its callers call: the function itself where CPython lets it."""
    hook = core.Hook("call", function, ring, lambda dispatcher, config: (1, 2), lambda *arguments: (3, 1))
    if not core.TAKES_FUNCTIONS:
        return hook, hook
    hook.take()
    return hook, function


def check_every_write_is_there(core: Any) -> None:
    ring = core.Ring()

    def work(thread: int) -> None:
        state = core.State(ring, thread)
        for number in range(EACH):
            state.write(number * 1e-9, -1.0, -1.0, -1.0, number * 1e-9, number, thread)

    run(work)
    found = columns(ring)
    assert per_thread(found, "target") == {thread: list(range(EACH)) for thread in range(THREADS)}
    assert found["configuration"] == found["site"]
    assert found["start_ns"] == found["end_ns"] == array.array("q", found["target"])
    assert ring.mark() == (THREADS * EACH, 0)
    assert ring.counts(0) == (THREADS * EACH, 0, 0, THREADS * EACH, 0)


def check_a_bounded_ring_counts_what_it_lost(core: Any) -> None:
    for mode, capacity in (("ring", 1), ("ring", 3), ("ring", 1000), ("stop", 1), ("stop", 5000)):
        ring = core.Ring(mode=mode, capacity=capacity)

        def work(thread: int, ring: Any = ring) -> None:
            state = core.State(ring, thread)
            for number in range(EACH // 4):
                state.write(number * 1e-9, -1.0, -1.0, -1.0, number * 1e-9, number, thread)

        run(work)
        found = columns(ring)
        ended, under_way, voided, begun, lost = ring.counts(0)
        made = THREADS * (EACH // 4)
        assert begun + lost == made, (mode, capacity, begun, lost)
        assert ended == len(found["target"]) == min(capacity, made), (mode, capacity, ended)
        assert under_way == voided == 0
        for numbers in per_thread(found, "target").values():
            assert numbers == sorted(set(numbers)), "twice, or out of order"
        if mode == "ring" and lost == 0:
            assert sorted(found["number"]) == list(found["number"])
            assert found["number"][-1] == begun


def check_rows_are_whole_while_others_write(core: Any) -> None:
    ring, ends = core.Ring(mode="ring", capacity=64), threading.Event()

    def work(thread: int) -> None:
        if thread == 0:
            try:
                for _ in range(2000):
                    found = columns(ring)
                    assert found["start_ns"] == found["end_ns"] == array.array("q", found["target"])
                    assert found["target"] == found["configuration"]
                    assert all(later > sooner for sooner, later in
                               zip(sorted(found["number"]), sorted(found["number"])[1:], strict=False))
            finally:
                ends.set()
            return
        state, number = core.State(ring, thread), 0
        while not ends.is_set():
            number += 1
            state.write(number * 1e-9, -1.0, -1.0, -1.0, number * 1e-9, number, number)

    run(work)


def check_every_hooked_call_is_there(core: Any) -> None:
    ring = core.Ring()
    serve(core, ring)
    kernels = [object() for _ in range(4)]
    found_hook = core.Hook("found", lambda *arguments: None, ring)
    ids = {id(kernel): number for number, kernel in enumerate(kernels)}

    def launch(dispatcher: Any, arguments: Any, config: Any) -> Any:
        found_hook(dispatcher, kernels[arguments % 4], config)
        return arguments

    def end(dispatcher: Any, kernel: Any, config: Any, arguments: Any, error: Any) -> tuple[int, int]:
        hook.know("targets", kernel, ids[id(kernel)], 0)
        return ids[id(kernel)], config[0]

    hook = core.Hook("call", launch, ring, lambda dispatcher, config: (config[0], 9), end, 8)
    if core.TAKES_FUNCTIONS:
        hook.take()
    call = launch if core.TAKES_FUNCTIONS else hook

    def work(thread: int) -> None:
        for number in range(EACH // 4):
            assert call(None, number, (thread,)) == number  # a configuration of its own each time

    run(work)
    found = columns(ring)
    assert Counter(found["configuration"]) == dict.fromkeys(range(THREADS), EACH // 4)
    expected = [number % 4 for number in range(EACH // 4)]
    assert all(targets == expected for targets in per_thread(found, "target").values())
    assert len(set(zip(found["site"], found["configuration"], strict=True))) == THREADS
    assert all(before <= after for before, after in zip(found["start_ns"], found["end_ns"], strict=True))
    for starts in per_thread(found, "start_ns").values():
        assert starts == sorted(starts)
    assert hook.give_back() or not core.TAKES_FUNCTIONS


def check_a_hook_goes_while_threads_are_inside(core: Any) -> None:
    calls, ends, recorded = [0] * THREADS, threading.Event(), Counter()

    def launch(dispatcher: Any, arguments: Any, config: Any) -> Any:
        calls[arguments] += 1
        return arguments

    holder = [launch]

    def work(thread: int) -> None:
        if thread:
            while not ends.is_set():
                assert holder[0](None, thread, launch) == thread
            return
        try:
            for _ in range(300):
                ring = core.Ring()
                serve(core, ring)
                hook, holder[0] = hooked(core, launch, ring)
                for _ in range(20):
                    assert holder[0](None, 0, launch) == 0
                assert hook.give_back()
                holder[0] = launch
                hook.forget()
                ended, _, voided, begun, lost = ring.counts(0)
                assert begun >= ended >= 20 and voided == lost == 0
                recorded.update(ended=ended)
        finally:
            ends.set()

    run(work)
    assert calls[0] == 6000
    assert 6000 <= recorded["ended"] <= sum(calls)
    ring = core.Ring()
    before = ring.mark()
    launch(None, 0, None)
    assert ring.mark() == before


def check_threads_that_come_and_go(core: Any) -> None:
    ring = core.Ring()
    serve(core, ring)
    hook, call = hooked(core, lambda dispatcher, arguments, config: None, ring)

    def work(thread: int) -> None:
        for _ in range(25):
            run(lambda number: [call(None, None, hook) for _ in range(10)] and None, 2)

    run(work, 4)
    assert Counter(columns(ring)["site"]) == dict.fromkeys(range(200), 10)
    hook.give_back()


CHECKS = {name: check for name, check in list(globals().items()) if name.startswith("check_")}


def main(file: str) -> None:
    """Check the extension module in a file."""
    loader = importlib.machinery.ExtensionFileLoader("kernelscope.native._core", file)
    spec = importlib.util.spec_from_loader("kernelscope.native._core", loader)
    assert spec is not None
    core = importlib.util.module_from_spec(spec)
    loader.exec_module(core)
    is_locked = getattr(sys, "_is_gil_enabled", lambda: True)
    for name, check in CHECKS.items():
        check(core)
        print("GIL" if is_locked() else "no GIL", name)


if __name__ == "__main__":
    main(sys.argv[1])
