"""The hook of cuda.core in C: what is asked, what is written, what is raised, and what the hook looks like."""

from __future__ import annotations

import functools
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from native_rings import Launches, failing, made, stays


class Thing:
    """A stream, a kernel, a launcher; it can be referred to weakly."""


class Config:
    def __init__(self, grid: Any = (1, 1, 1), block: Any = (32, 1, 1), cluster: Any = None,
                 shmem_size: Any = 0) -> None:
        self.grid, self.block, self.cluster, self.shmem_size = grid, block, cluster, shmem_size


class Core:
    """A hook on something like ``cuda.core.launch``, whose parts each test may replace."""

    def __init__(self, **options: Any) -> None:
        self.launches: Launches = made(**options)
        self.asked: list[tuple[Any, ...]] = []
        self.ended: list[tuple[Any, ...]] = []
        self.run: Callable[..., Any] = lambda *_: "done"
        self.known = True
        self.begin: Callable[..., Any] = lambda *_: (len(self.asked), 7)
        self.end: Callable[..., Any] = lambda *_: (100, 8)
        self.hook = functools.update_wrapper(self.launches.hook("core", launch, self._begin, self._end), launch)
        self.stream, self.kernel, self.config = Thing(), Thing(), Config()
        _current.append(self)

    def _begin(self, kernel: Any, stream: Any, *shape: Any) -> Any:
        self.asked.append((kernel, stream, *shape))
        found = self.begin()
        if found is not None and self.known:
            self.hook.know("launches", (kernel, stream, *shape), *found[:2])
        return found

    def _end(self, *asked: Any) -> Any:
        self.ended.append(asked)
        return self.end()

    def __call__(self, *kernel_args: Any, **given: Any) -> Any:
        return self.hook(self.stream, self.config, self.kernel, *kernel_args, **given)


_current: list[Core] = []


def launch(stream: Any, config: Any, kernel: Any, *kernel_args: Any) -> Any:
    """Launch it."""
    return _current[-1].run(stream, config, kernel, *kernel_args)


@pytest.fixture
def core() -> Any:
    yield Core()
    _current.clear()


def interrupted(*_: Any) -> Any:
    raise KeyboardInterrupt


def refused(*_: Any) -> Any:
    raise LookupError("refused")


def test_a_launch_has_its_ids_while_it_lasts(core: Core) -> None:
    seen = []
    core.run = lambda *_: seen.append(core.launches.counts())
    for _ in range(3):
        core()
    assert seen == [(0, 1, 0), (1, 1, 0), (2, 1, 0)] and core.launches.counts() == (3, 0, 0)
    assert core.launches.ids() == [(1, 7)] * 3 and len(core.asked) == 1 and core.ended == []
    row = core.launches.rows()[0]
    assert 0 < row["start_ns"] <= row["end_ns"]
    assert row["dispatch_end_ns"] == row["submit_start_ns"] == row["submit_end_ns"] == -1


def test_what_a_launch_is_made_of_is_looked_at_each_time(core: Core) -> None:
    first = core.config
    for change in ({"grid": (2, 1, 1)}, {"block": (64, 1, 1)}, {"cluster": (2, 1, 1)}, {"shmem_size": 5000}, {}):
        vars(first).update(vars(Config()), **change)
        core()
    assert [target for target, _ in core.launches.ids()] == [1, 2, 3, 4, 5]
    core.stream = Thing()
    core()
    core.kernel = Thing()
    core()
    assert [target for target, _ in core.launches.ids()][5:] == [6, 7]


def test_equal_parts_need_no_question(core: Core) -> None:
    core()
    core.config = Config(grid=(1, 1), block=tuple(map(int, ("32", "1"))))  # missing dimensions are 1
    core()
    core.config = Config(shmem_size=int("5000"))
    core()
    core.config = Config(shmem_size=int("5000"))
    core()
    assert len(core.asked) == 2


@pytest.mark.parametrize("part", [(2**31, 1, 1), (1, 2**16, 1), (-1, 1, 1), (True, 1, 1), (1, 1, 1, 1), (), [1, 1, 1]])
def test_odd_parts_are_asked_about_each_time(core: Core, part: Any) -> None:
    core.known = False
    core.config.grid = part
    core()
    core()
    assert len(core.asked) == 2 and core.launches.ids() == [(1, 7), (2, 7)]
    with pytest.raises(TypeError, match="is no launch"):
        core.hook.know("launches", (core.kernel, core.stream, part), 0, 0)


def test_many_launches_are_forgotten_at_once(core: Core) -> None:
    held = weakref.ref(core.stream)
    for number in range(200):
        core.config.shmem_size = number
        core()
    core.stream = Thing()
    core()
    assert len(core.asked) == 201 and core.launches.counts() == (201, 0, 0)
    for number in range(70):
        core.config.shmem_size = number
        core()
    core.asked.clear()
    assert held() is None


def test_keywords_in_any_order(core: Core) -> None:
    for call in (lambda: core.hook(kernel=core.kernel, config=core.config, stream=core.stream),
                 lambda: core.hook(core.stream, **{"".join(("ker", "nel")): core.kernel}, config=core.config)):
        assert call() == "done"
    assert core.launches.counts() == (2, 0, 0) and len(core.asked) == 1


@pytest.mark.parametrize(("args", "named", "said"), [
    (2, {}, "missing 1 required"), (3, {"stream": 1}, "multiple values"), (3, {"nothing": 1}, "unexpected keyword"),
    (2, {"nothing": 1}, "unexpected keyword"), (0, {}, "missing 3 required")])
def test_wrong_arguments_are_the_originals_to_refuse(core: Core, args: int, named: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        core.hook(*(core.stream, core.config, core.kernel)[:args], **named)
    assert core.launches.counts() == (0, 0, 0) and core.asked == []


def test_failures_are_the_users_and_have_their_name(core: Core) -> None:
    core.run = refused
    with pytest.raises(LookupError, match="refused") as raised:
        core()
    assert [entry.name for entry in raised.traceback] == [
        "test_failures_are_the_users_and_have_their_name", "__call__", "launch", "refused"]
    assert core.ended == [(core.stream, core.config, core.kernel, "LookupError")]
    assert core.launches.ids() == [(100, 8)]


@pytest.mark.parametrize("config", [Config(), object()])
def test_what_cannot_be_looked_up(core: Core, config: Any) -> None:
    """It is a launch where it was launched; where it was refused nobody asks."""
    core.begin = lambda: None
    core.config = config
    core.run = refused
    with pytest.raises(LookupError):
        core()
    assert core.launches.counts() == (0, 0, 0) and core.ended == []
    core.run = lambda *_: 5
    assert core() == 5
    assert core.ended == [(core.stream, config, core.kernel, None)]
    assert core.launches.ids() == [(100, 8)]
    core.end = lambda: None
    assert core() == 5
    assert core.launches.counts() == (1, 0, 1)


def test_interruptions(core: Core) -> None:
    calls = []
    core.run = lambda *_: calls.append(1)
    core.begin = interrupted
    with pytest.raises(KeyboardInterrupt):
        core()
    assert not calls and core.launches.counts() == (0, 0, 0)
    core.begin = lambda: (1, 2, OSError("a handler's"))
    with pytest.raises(OSError, match="a handler's"):
        core()
    assert not calls
    core.begin, core.run, core.end = (lambda: (1, 2)), refused, interrupted
    with pytest.raises(KeyboardInterrupt) as raised:
        core()
    assert isinstance(raised.value.__context__, LookupError)
    assert core.launches.counts() == (0, 0, 1)
    core.end = lambda: (3, 4, OSError("a handler's"))
    with pytest.raises(OSError, match="a handler's") as raised:
        core()
    assert isinstance(raised.value.__context__, LookupError) and core.launches.ids() == [(3, 4)]


def test_the_driver_call_of_anothers_launch(core: Core) -> None:
    state = core.launches.state()
    state.launch_config = object()
    core()  # such as from an extension of it
    assert core.launches.counts() == (1, 0, 0)
    state.submit_start = 2.0
    core()
    assert core.launches.counts() == (1, 0, 0)
    state.submit_end = 3.0
    core()
    state.launch_config, state.submit_end = None, -1.0
    core()
    assert core.launches.counts() == (3, 0, 0)


def test_a_launch_in_a_launch(core: Core) -> None:
    inner = [1, 2]

    def run(*_: Any) -> None:
        if inner:
            inner.pop()
            core()

    core.run = run
    core()
    times = [(row["start_ns"], row["end_ns"]) for row in core.launches.rows()]
    assert len(times) == 3 and times[0][0] <= times[1][0] <= times[2][0] <= times[2][1] <= times[0][1]


def test_without_room_it_is_launched_all_the_same() -> None:
    core = Core(mode="stop", capacity=1)
    assert [core() for _ in range(3)] == ["done"] * 3
    core.run = refused
    with pytest.raises(LookupError):
        core()
    assert core.launches.ids() == [(1, 7)] and core.launches.ring.mark() == (1, 3)
    _current.clear()


def test_a_hook_that_is_kept_records_no_more(core: Core) -> None:
    held = weakref.ref(core.kernel)
    core()
    core.hook.is_enabled = False
    assert core() == "done" and core.launches.counts() == (1, 0, 0)
    core.hook.forget()
    core.kernel = None
    core.asked.clear()
    gc.collect()
    assert held() is None
    core.hook.original = lambda *_: "another"
    assert core() == "another"
    with pytest.raises(TypeError, match="stands for"):
        core.hook.original = 5


@pytest.mark.parametrize("case", ["known", "asked", "none", "refused", "interrupted", "handler", "odd"])
def test_references_to_what_is_launched(core: Core, case: str) -> None:
    argument, problem = Thing(), OSError("a handler's")
    core.known = case == "known"
    core.config.grid = (2**40, 1, 1) if case == "odd" else (5, 1, 1)
    core.run = refused if case in ("refused", "handler") else core.run
    core.end = (lambda: (1, 2, problem)) if case == "handler" else core.end
    core.begin = {"none": lambda: None, "interrupted": interrupted}.get(case, core.begin)
    fails = case in ("refused", "interrupted", "handler")
    call = failing(functools.partial(core, argument)) if fails else functools.partial(core, argument)

    def once() -> None:
        call()
        core.asked.clear()
        core.ended.clear()
        problem.__traceback__ = problem.__context__ = None

    stays([argument, core.stream, core.kernel, core.config, core.config.grid, core.hook, problem], once)


@pytest.mark.parametrize("ends", [False, True])
def test_threads(core: Core, ends: bool) -> None:
    """Also where the hook is taken out of use while they are inside."""
    problems: list[BaseException] = []
    configs = [Config(grid=(number + 1, 1, 1)) for number in range(8)]

    def work() -> None:
        try:
            for number in range(3000):
                core.hook(core.stream, configs[number % 8], core.kernel)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    if ends:
        core.hook.is_enabled = False
        core.hook.forget()
    for each in threads:
        each.join()
    assert not problems
    ended, under_way, voided = core.launches.counts()
    assert under_way == voided == 0 and (ended <= 12_000 if ends else ended == 12_000)
    assert len({row["site"] for row in core.launches.rows()}) <= 4
