"""What a process has once, used from two threads: the second comes in where it would do the most harm."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import nvtx
import pytest

import kernelscope
from kernelscope.graphs import lifetimes
from kernelscope.probes import cupti
from kernelscope.probes import nvtx as nvtx_probe
from kernelscope.probes.triton import kernels as triton
from kernelscope.recording import parquet
from kernelscope.recording.parquet import Budget, decode, empty_table, encode
from kernelscope.schema import TABLES

WAITS = 60


def beside(work: Callable[[], Any], wait: float = WAITS) -> threading.Thread:
    """Run `work` in another thread, and wait until it has ended, or that long where it waits for this thread."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(wait)
    return thread


class Comes(str):
    """A text that is hashed and compared like any other; the `when`-th time it calls something before."""

    def __new__(cls, text: str, when: int, call: Callable[[], Any]) -> Comes:
        new = super().__new__(cls, text)
        new.count, new.when, new.call = 0, when, call
        return new

    count: int
    when: int
    call: Callable[[], Any]

    def _meet(self) -> None:
        self.count += 1
        if self.count == self.when:
            self.call()

    def __hash__(self) -> int:
        self._meet()
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        self._meet()
        return super().__eq__(other)


@pytest.mark.parametrize("when", range(1, 9))
def test_small_tables_that_files_repeat(when: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread forgets them while one is looked up."""
    monkeypatch.setattr(parquet, "_MAX_REPEATED", 1)
    data = memoryview(encode("cells", empty_table("cells")))
    other = memoryview(encode("threads", empty_table("threads")))
    decode("cells", data, 0, Budget(0))

    def forget() -> None:
        beside(lambda: decode("threads", other, 0, Budget(0)))

    assert decode(Comes("cells", when, forget), data, 0, Budget(0)).schema == empty_table("cells").schema


def test_two_threads_read_the_same_tables_of_files() -> None:
    """All of them at once, again and again."""
    data = {name: memoryview(encode(name, empty_table(name))) for name in TABLES}
    begin = threading.Barrier(4, timeout=WAITS)
    problems: list[BaseException] = []

    def read() -> None:
        begin.wait()
        try:
            for _ in range(20):
                for name, table in data.items():
                    assert decode(name, table, 0, Budget(0)).num_rows == 0
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAITS)
    assert problems == []


def test_a_domain_of_nvtx_is_one_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread asks for it when the first has seen that it is not there."""
    found: list[Any] = []

    def ask() -> None:
        found.append(nvtx.get_domain("a domain that two threads ask for"))

    class Known(dict[Any, Any]):
        is_met = False

        def __contains__(self, name: object) -> bool:
            is_there = super().__contains__(name)
            if not self.is_met:
                self.is_met = True
                beside(ask)
            return is_there

    monkeypatch.setattr(nvtx_probe, "_named", Known())
    with kernelscope.record():
        ask()
    assert len(found) == 2 and found[0] is found[1]
    assert found[0].name == "a domain that two threads ask for"


def test_memory_of_a_closed_graph_is_freed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread lets go of it between the look at the list and the question."""
    freed: list[int] = []
    library: Any = lifetimes._libc()

    def ask(semaphore: int) -> int:
        if threading.current_thread() is threading.main_thread():
            beside(lifetimes.let_go)
        assert semaphore not in freed, "a semaphore is asked that was freed"
        return library.sem_trywait(semaphore)

    def free(semaphore: int) -> None:
        freed.append(semaphore)  # never given back: another allocation would have its address

    semaphore = library.calloc(1, 64)
    library.sem_init(semaphore, 0, 1)
    kept = lifetimes.KeepAlive.__new__(lifetimes.KeepAlive)
    vars(kept).update(_semaphore=semaphore, _asking=threading.Lock())
    monkeypatch.setattr(lifetimes, "_libc", lambda: SimpleNamespace(sem_trywait=ask, free=free))
    lifetimes._ending.append(kept)
    lifetimes.let_go()
    assert freed == [semaphore] and kept not in lifetimes._ending
    assert ctypes.c_int.from_address(semaphore).value == 0


@pytest.mark.parametrize("when", range(1, 6))
def test_definitions_of_triton_from_two_threads(when: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one is defined while one is remembered, and only few are."""
    monkeypatch.setattr(triton, "_MOST_NAMES", 1)
    monkeypatch.setattr(triton, "_definitions", type(triton._definitions)())

    def function(name: str) -> Any:
        return SimpleNamespace(cache_key="0" * 64, src="", starting_line_number=1, used_global_vals={},
                               __module__="m", __qualname__=name)

    class Named:
        def __str__(self) -> str:
            return Comes("first", when, lambda: beside(lambda: triton.definition(function("second")), 1))

    monkeypatch.setattr(triton, "_called", lambda _: [])
    first = function("first")
    first.__qualname__ = Named()
    held, before = triton.definition(first)
    assert before is None and held["line"] == 1


def test_cupti_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    threads: list[threading.Thread] = []
    found: list[Any] = []

    class Library:
        def __init__(self, path: str) -> None:
            made.append(self)
            if len(made) == 1:
                threads.append(beside(lambda: found.append(cupti._loaded()), 1))

    monkeypatch.setattr(cupti, "find", lambda: "libcupti.so")
    monkeypatch.setattr(cupti, "Cupti", Library)
    monkeypatch.setattr(cupti, "_libraries", {})
    found.append(cupti._loaded())
    threads[0].join(WAITS)
    assert len(made) == 1 and found == [made[0], made[0]]
