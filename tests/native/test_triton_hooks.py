"""The hooks of Triton in C: what is asked, what is written, what is raised."""

from __future__ import annotations

import functools
import gc
import signal
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from native_rings import Launches, failing, made, stays

#: So many launches are known at most: what `native_rings` gives its hooks.
MOST = 64


class Launcher:
    """As Triton's ``CudaLauncher``; a test may have it do something."""

    def __init__(self) -> None:
        self.run: Callable[[], Any] = lambda: None

    def __call__(self, gridX: Any, gridY: Any, gridZ: Any, stream: Any, function: Any, *args: Any) -> Any:
        return self.run()


class Function:
    """As Triton's ``JITFunction``, which has a launcher for what it compiles."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        self.launcher: Launcher | None = Launcher()
        self.stream: Any = 0
        self.before: Callable[[], Any] = lambda: None
        self.after: Callable[[], Any] = lambda: self

    def run(self, *args: Any, grid: Any, warmup: Any, **options: Any) -> Any:
        self.before()
        if self.launcher is not None and not warmup:
            self.hooks.launcher(self.launcher, *grid, self.stream, 0, *args)
        return self.after()


class Hooks:
    """Both hooks, and what they ask."""

    def __init__(self, **options: Any) -> None:
        self.launches: Launches = made(**options)
        self.begun: list[Any] = []
        self.alone: list[tuple[Any, ...]] = []
        self.ended: list[tuple[Any, ...]] = []
        self.answers: dict[str, Callable[[], Any]] = {}
        self.run: Any = self.launches.hook("run", Function.run, self._begin, self._end)
        self.launcher: Any = self.launches.hook("launcher", Launcher.__call__, self._begin_alone, self._end)

    def __call__(self, function: Function, *args: Any, grid: Any = (4, 1, 1), **options: Any) -> Any:
        return self.run(function, *args, grid=grid, warmup=False, **options)

    def _begin(self, function: Any) -> Any:
        self.begun.append(function)
        if "begin" in self.answers:
            return self.answers["begin"]()
        self.run.know("configurations", function, 5, -1)
        return 5, -1

    def _begin_alone(self, launcher: Any, *shape: Any) -> Any:
        self.alone.append((launcher, *shape))
        return self.answers["alone"]() if "alone" in self.answers else self._known((launcher, *shape))

    def _end(self, function: Any, result: Any, launched: Any, error: str | None) -> Any:
        self.ended.append((function, result, launched, error))
        if "end" in self.answers:
            return self.answers["end"]()
        if error is not None:
            return 100, 9
        return self._known(launched) if launched is not None else (50, 51)

    def _known(self, launched: tuple[Any, ...]) -> tuple[int, int]:
        launcher, *shape = launched
        if all(type(each) is int for each in shape):
            self.launcher.know("launches", (launcher, None, *shape), 9 + shape[1], shape[0])
        return 9 + shape[1], shape[0]


def interrupted(*_: Any) -> Any:
    raise KeyboardInterrupt


def refused(*_: Any) -> Any:
    raise LookupError("refused")


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


@pytest.fixture
def function(hooks: Hooks) -> Function:
    return Function(hooks)


@pytest.mark.parametrize("phases", [True, False])
def test_launches_by_launcher_grid_and_stream(phases: bool) -> None:
    hooks = Hooks(phases=phases)
    function, other = Function(hooks), Function(hooks)
    for _ in range(3):
        assert hooks(function, 1, 2.0, BLOCK=16) is function
    assert hooks.launches.ids() == [(10, 4)] * 3
    assert hooks.begun == [function] and hooks.ended == [(function, function, (function.launcher, 4, 1, 1, 0), None)]
    row = hooks.launches.rows()[-1]
    times = [row[f"{name}_ns"] for name in ("start", "dispatch_end", "submit_start", "submit_end", "end")]
    assert times[1:4] == [-1] * 3 if not phases else times == sorted(times) and times[1] == times[2]
    for grid, stream in (((4, 2, 1), 0), ((4, 1, 2), 0), ((5, 1, 1), 0), ((4, 1, 1), 1 << 47)):
        function.stream = stream
        hooks(function, grid=grid)
        hooks(function, grid=grid)
    hooks(other)
    assert len(hooks.ended) == 6 and hooks.launches.ids()[-1] == (10, 4) and hooks.begun == [function, other]
    assert hooks.launches.state().kernel is None and hooks.launches.state().launch_config is None


def test_warm_ups_and_refused_calls_are_no_launches(hooks: Hooks, function: Function) -> None:
    class Odd:
        def __init__(self, answer: Callable[[], bool]) -> None:
            self.answer = answer

        def __bool__(self) -> bool:
            return self.answer()

    assert hooks.run(function, grid=(1, 1, 1), warmup=True) is function
    assert hooks.run(function, grid=(1, 1, 1), warmup=1) is function
    for call in (lambda: hooks.run(function, grid=(1, 1, 1)), lambda: hooks.run(), lambda: hooks.run(warmup=False),
                 lambda: hooks.launcher(function.launcher, 1, 1), lambda: hooks.launcher(function.launcher, gridX=1)):
        with pytest.raises(TypeError, match="missing|required|argument"):
            call()
    with pytest.raises(LookupError):  # asked by Triton itself too
        hooks.run(function, grid=(1, 1, 1), warmup=Odd(refused))
    with pytest.raises(KeyboardInterrupt):
        hooks.run(function, grid=(1, 1, 1), warmup=Odd(interrupted))
    assert hooks.launches.counts() == (0, 0, 0) and hooks.begun == []
    name = "".join(("warm", "up"))  # not the name that the hook has: of a dict that was read from a file, say
    assert hooks.run(function, grid=(1, 1, 1), **{name: Odd(lambda: False)}) is function
    assert hooks.launches.counts() == (1, 0, 0)


def test_a_launch_is_there_while_it_lasts(hooks: Hooks, function: Function) -> None:
    seen = []
    function.before = lambda: seen.append(hooks.launches.counts())
    hooks(function)
    assert seen == [(0, 1, 0)] and hooks.launches.counts() == (1, 0, 0)


def test_a_kernel_that_was_not_compiled_is_no_launch(hooks: Hooks, function: Function) -> None:
    hooks.answers["end"], function.launcher, function.after = (lambda: None), None, lambda: None
    assert hooks(function) is None
    assert hooks.ended == [(function, None, None, None)] and hooks.launches.counts() == (0, 0, 1)


def test_a_driver_with_a_launcher_of_its_own(hooks: Hooks, function: Function) -> None:
    function.launcher = None
    assert hooks(function) is function and hooks(function) is function
    assert hooks.ended == [(function, function, None, None)] * 2 and hooks.launches.ids() == [(50, 51)] * 2


def test_launchers_alone_are_launches(hooks: Hooks) -> None:
    launcher = Launcher()
    launcher.run = lambda: "done"
    for _ in range(2):
        assert hooks.launcher(launcher, 7, 1, 1, 0, 0, "argument") == "done"
    assert hooks.alone == [(launcher, 7, 1, 1, 0)] and hooks.ended == []
    assert hooks.launches.ids() == [(10, 7)] * 2
    row = hooks.launches.rows()[-1]
    assert row["start_ns"] == row["dispatch_end_ns"] == row["submit_start_ns"]
    assert row["submit_end_ns"] == row["end_ns"] >= row["start_ns"]
    hooks.answers["alone"] = lambda: None
    assert hooks.launcher(launcher, 8, 1, 1, 0, 0) == "done"
    assert hooks.launches.counts() == (2, 0, 0)
    launcher.run = refused
    with pytest.raises(LookupError):
        hooks.launcher(launcher, 7, 1, 1, 0, 0)
    assert hooks.ended == [(None, None, (10, 7), "LookupError")] and hooks.launches.ids()[-1] == (100, 9)
    assert hooks.launches.rows()[-1]["submit_end_ns"] == -1


def test_launches_in_launches(hooks: Hooks, function: Function) -> None:
    """From the grid, from a hook around the driver call, and from what comes after it."""
    other, launcher = Function(hooks), Launcher()
    assert function.launcher is not None
    function.before = lambda: hooks(other, grid=(2, 1, 1))
    function.launcher.run = lambda: (hooks(other, grid=(3, 1, 1)), hooks.launcher(launcher, 6, 1, 1, 0, 0))
    function.after = lambda: (hooks(other, grid=(8, 1, 1)), hooks.launcher(launcher, 9, 1, 1, 0, 0), ended())[1]
    launcher.run = lambda: function
    submit_ends: list[float] = []

    def ended() -> None:
        submit_ends.append(hooks.launches.state().submit_end)

    for _ in range(2):
        assert hooks(function) is function
    assert [configuration for _, configuration in hooks.launches.ids()] == [4, 2, 3, 6, 8, 9] * 2
    for rows, seen in zip((hooks.launches.rows()[:6], hooks.launches.rows()[6:]), submit_ends, strict=True):
        times = [rows[0][f"{name}_ns"] for name in ("start", "submit_start", "submit_end", "end")]
        assert round(seen * 1e9) == times[2], "the thread is in the outer launch again"
        for first, last, inside in ((0, 1, rows[1:2]), (1, 2, rows[2:4]), (2, 3, rows[4:])):
            for row in inside:
                assert times[first] <= row["start_ns"] <= row["submit_end_ns"] <= row["end_ns"] <= times[last]
    assert hooks.launches.state().kernel is None


def test_failures_have_what_was_launched(hooks: Hooks, function: Function) -> None:
    launcher = function.launcher
    assert launcher is not None
    launcher.run = refused
    with pytest.raises(LookupError):
        hooks(function)
    assert hooks.ended.pop() == (function, None, (launcher, 4, 1, 1, 0), "LookupError")
    row = hooks.launches.rows()[-1]
    assert row["submit_start_ns"] > 0 and row["submit_end_ns"] == -1
    assert (row["target"], row["configuration"]) == (100, 9)
    launcher.run = lambda: None
    hooks(function)
    hooks.ended.clear()
    for name, wanted in (("after", (10, 4)), ("before", None)):
        setattr(function, name, refused)
        with pytest.raises(LookupError):
            hooks(function)
        assert hooks.ended.pop() == (function, None, wanted, "LookupError")
    assert hooks.launches.counts() == (4, 0, 0) and hooks.launches.state().kernel is None


@pytest.mark.parametrize("place", ["begin", "alone", "end"])
def test_interrupted_where_python_is_asked(hooks: Hooks, function: Function, place: str) -> None:
    call = functools.partial(hooks.launcher, function.launcher, 4, 1, 1, 0, 0) if place == "alone" else (
        functools.partial(hooks, function))
    for answer, wanted in ((interrupted, KeyboardInterrupt), (lambda: (1, 2, OSError("a handler's")), OSError)):
        hooks.answers[place] = answer
        with pytest.raises(wanted):
            call()
        assert hooks.launches.state().kernel is None
    ended, under_way, voided = hooks.launches.counts()
    assert (ended, under_way, voided) == ((1, 0, 1) if place == "end" else (0, 0, 0))
    hooks.answers[place] = lambda: None
    assert call() in (function, None)
    assert hooks.launches.counts()[0] == ended + (place == "begin"), "or it is the launcher's own"
    del hooks.answers[place]
    call()
    assert hooks.launches.ids()[-1] == (10, 4)


def test_ctrl_c_in_the_middle(hooks: Hooks, function: Function) -> None:
    assert function.launcher is not None
    hooks(function)
    for owner, name in ((function, "before"), (function.launcher, "run"), (function, "after")):
        usual = getattr(owner, name)
        setattr(owner, name, lambda: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            hooks(function)
            pytest.fail("it came too late")
        setattr(owner, name, usual)
    assert [error for *_, error in hooks.ended] == [None, *["KeyboardInterrupt"] * 3]
    hooks(function)
    assert hooks.launches.ids() == [(10, 4), *[(100, 9)] * 3, (10, 4)]


def test_a_full_table_is_emptied(hooks: Hooks, function: Function) -> None:
    grids = range(1, 3 * MOST + 1)
    for _ in range(2):
        for grid in grids:
            hooks(function, grid=(grid, 1, 1))
    assert [configuration for _, configuration in hooks.launches.ids()] == [*grids, *grids]
    assert len(hooks.ended) == 6 * MOST, "each was forgotten before it came again"
    functions = [Function(hooks) for _ in range(2 * MOST)]
    for each in functions:
        hooks(each)
    assert hooks.begun == [function, *functions] and len(hooks.launches.rows()) == 8 * MOST


def test_launchers_are_held_until_the_end(hooks: Hooks, function: Function) -> None:
    """So that no other one is taken for a launcher that is gone."""
    held = weakref.ref(function.launcher)
    hooks(function)
    hooks.ended.clear()
    for _ in range(50):
        function.launcher = Launcher()
        hooks(function)
        hooks.ended.clear()
    gc.collect()
    assert held() is not None
    hooks.launcher.is_enabled = hooks.run.is_enabled = False
    hooks.launcher.forget()
    gc.collect()
    assert held() is None
    assert hooks(function) is function and hooks.launches.counts() == (51, 0, 0)


@pytest.mark.parametrize("odd", [-1, 2**70, 1.0, True, "1"])
def test_odd_dimensions_are_asked_each_time(hooks: Hooks, function: Function, odd: Any) -> None:
    hooks.answers["end"] = lambda: (60, 61)
    for _ in range(2):
        hooks(function, grid=(odd, 1, 1))
    assert hooks.launches.ids() == [(60, 61)] * 2
    assert hooks.ended == [(function, function, (function.launcher, odd, 1, 1, 0), None)] * 2


@pytest.mark.parametrize("case", ["known", "new", "alone", "failed", "failed before", "interrupted", "handler"])
def test_references_to_what_is_launched(hooks: Hooks, function: Function, case: str) -> None:
    argument, problem = object(), OSError("a handler's")
    grids = iter(range(1, 10**6))
    assert function.launcher is not None
    if case == "failed before":
        function.before = refused
    elif case in ("failed", "interrupted", "handler"):
        function.launcher.run = refused
    if case in ("interrupted", "handler"):
        hooks.answers["end"] = interrupted if case == "interrupted" else lambda: (1, 2, problem)

    def call() -> None:
        if case == "alone":
            hooks.launcher(function.launcher, next(grids), 1, 1, 0, 0, argument)
        else:
            hooks(function, argument, grid=(next(grids) if case == "new" else 4, 1, 1))

    made_once = call if case in ("known", "new", "alone") else failing(call)

    def once() -> None:
        made_once()
        hooks.ended.clear()
        hooks.alone.clear()
        problem.__traceback__ = problem.__context__ = None

    stays([argument, function, function.launcher, hooks.run, hooks.launcher, problem, refused], once)


@pytest.mark.parametrize("ends", [False, True])
def test_threads(hooks: Hooks, ends: bool) -> None:
    """With more grids than are known at once; also where the hooks are taken out of use meanwhile."""
    functions = [Function(hooks) for _ in range(2)]
    problems: list[BaseException] = []

    def work(own: int) -> None:
        try:
            for number in range(2000):
                hooks(functions[number % 2], grid=(number % (2 * MOST) + 1, own, 1))
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(own,)) for own in range(4)]
    for each in threads:
        each.start()
    if ends:
        for hook in (hooks.run, hooks.launcher):
            hook.is_enabled = False
            hook.forget()
    for each in threads:
        each.join()
    assert not problems
    ended, under_way, voided = hooks.launches.counts()
    assert under_way == voided == 0
    if not ends:
        assert ended == 8000
        for own in range(4):
            assert [configuration for target, configuration in hooks.launches.ids() if target == 9 + own] == [
                number % (2 * MOST) + 1 for number in range(2000)]
