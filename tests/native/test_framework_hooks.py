"""The hooks of cuda.compute and numba-cuda-mlir in C: what is asked, what is written, what is raised."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from native_rings import Launches, failing, made, stays


class Stream:
    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, Any]:
        if isinstance(self.handle, BaseException):
            raise self.handle
        return 0, self.handle


class Built:
    def __call__(self, *, temp_storage: Any, stream: Any = None) -> Any:
        return temp_storage


class Scan(Built):
    def __init__(self, inclusive: bool) -> None:
        self.force_inclusive = inclusive


class Algorithm:
    """A hook on an algorithm, or on the method of what a factory has built."""

    def __init__(self, original: Any, *, method: bool = False) -> None:
        self.launches: Launches = made()
        self.asked: list[tuple[Any, Any]] = []
        self.ended: list[tuple[Any, Any, str]] = []
        self.answer: Any = None
        self.hook: Any = self.launches.hook("algorithm", original, self._begin, self._end,
                                            (-1 if method else None, -1, method))

    def _begin(self, built: Any, stream: Any) -> Any:
        self.asked.append((built, stream))
        if self.answer is not None:
            return self.answer()
        first, second = (self.hook.original, None) if built is None else (
            type(built), getattr(built, "force_inclusive", None))
        found = len(self.asked), 0 if stream is None else stream.handle
        self.hook.know("launches", (first, second, *(() if stream is None else (stream.handle, 1))), *found)
        return found

    def _end(self, built: Any, stream: Any, error: str) -> Any:
        self.ended.append((built, stream, error))
        return 100, 8


def reduce(*, num_items: Any, stream: Any = None) -> Any:
    return num_items() if callable(num_items) else num_items


def interrupted(*_: Any) -> Any:
    raise KeyboardInterrupt


def refused(*_: Any) -> Any:
    raise LookupError("refused")


def test_a_call_is_a_launch_and_what_it_calls_is_part_of_it() -> None:
    algorithm = Algorithm(reduce)
    seen = []

    def inner() -> int:
        seen.append(algorithm.launches.counts())
        return algorithm.hook(num_items=3)

    assert [algorithm.hook(num_items=inner) for _ in range(2)] == [3, 3]
    assert seen == [(0, 1, 0), (1, 1, 0)] and algorithm.launches.ids() == [(1, 0)] * 2
    assert algorithm.asked == [(None, None)]
    with pytest.raises(LookupError):
        algorithm.hook(num_items=refused)
    assert algorithm.hook(num_items=5) == 5
    assert algorithm.launches.ids() == [(1, 0)] * 2 + [(100, 8), (1, 0)]
    assert algorithm.ended == [(None, None, "LookupError")]


def test_streams_are_known_by_their_handles() -> None:
    algorithm = Algorithm(reduce)
    stream = Stream(7)
    for each in (stream, Stream(7), None):
        algorithm.hook(num_items=1, stream=each)
    stream.handle = 9
    algorithm.hook(num_items=1, **{"".join(("str", "eam")): stream})
    assert [configuration for _, configuration in algorithm.launches.ids()] == [7, 7, 0, 9]
    assert len(algorithm.asked) == 3
    algorithm.answer = lambda: (50, 51)
    for odd in (object(), Stream(-1), Stream("?"), Stream(OSError("closed"))):
        algorithm.hook(num_items=1, stream=odd)
    assert algorithm.launches.ids()[4:] == [(50, 51)] * 4
    with pytest.raises(KeyboardInterrupt):
        algorithm.hook(num_items=pytest.fail, stream=Stream(KeyboardInterrupt()))
    assert algorithm.launches.counts() == (8, 0, 0)


def test_what_was_built_tells_the_algorithm() -> None:
    algorithm = Algorithm(Built.__call__, method=True)
    assert algorithm.hook(Built(), temp_storage=None) is None  # only asks how much memory
    assert algorithm.launches.counts() == (0, 0, 0)
    for built in (Built(), Built(), Scan(True), Scan(False), Scan(True)):
        assert algorithm.hook(built, temp_storage=1) == 1
    assert [target for target, _ in algorithm.launches.ids()] == [1, 1, 2, 3, 2]


def test_refused_arguments_are_no_launch() -> None:
    algorithm = Algorithm(reduce)
    for named in ({}, {"num_items": 1, "nothing": 2}):
        with pytest.raises(TypeError, match="num_items|nothing"):
            algorithm.hook(**named)
    with pytest.raises(TypeError):  # by what it calls: a launch that has failed
        algorithm.hook(num_items=lambda: len(5))  # type: ignore[arg-type]
    assert algorithm.launches.counts() == (1, 0, 2)
    method = Algorithm(Built.__call__, method=True)
    with pytest.raises(TypeError, match="temp_storage"):
        method.hook(Built())
    with pytest.raises(TypeError):
        method.hook()
    assert method.launches.rows() == []


def test_ids_that_cannot_be_had() -> None:
    algorithm = Algorithm(reduce)
    algorithm.answer = lambda: None
    assert algorithm.hook(num_items=lambda: algorithm.hook(num_items=2)) == 2
    assert algorithm.launches.counts() == (0, 0, 0) and len(algorithm.asked) == 1
    algorithm.answer = interrupted
    with pytest.raises(KeyboardInterrupt):
        algorithm.hook(num_items=pytest.fail)
    algorithm.answer = None
    assert algorithm.hook(num_items=2) == 2
    assert algorithm.launches.counts() == (1, 0, 0)


def test_calls_of_a_function_that_others_hold() -> None:
    algorithm = Algorithm(reduce)
    if not algorithm.launches.core.TAKES_FUNCTIONS:
        with pytest.raises(RuntimeError, match=r"Python 3\.11"):
            algorithm.hook.take()
        return
    held = [reduce]
    algorithm.hook.take()
    assert algorithm.launches.core.taken() == [reduce]
    assert held[0](num_items=4) == 4 and algorithm.launches.counts() == (1, 0, 0)
    with pytest.raises(RuntimeError, match="already"):
        Algorithm(reduce).hook.take()
    assert algorithm.hook.give_back() and algorithm.launches.core.taken() == []
    assert held[0](num_items=4) == 4 and algorithm.launches.counts() == (1, 0, 0)


class Request:
    """A hook on a factory's cache."""

    def __init__(self, factory: Any) -> None:
        self.rows: list[Any] = []
        self.settled: list[tuple[Any, ...]] = []
        self.failures: list[tuple[Any, ...]] = []
        self.known: dict[int, int] = {}
        self.hook: Any = made().hook("request", lambda: None, self._settle, self._failed,
                                     (factory, self.known, self.rows.append))

    def _settle(self, *asked: Any) -> None:
        self.settled.append(asked)

    def _failed(self, *asked: Any) -> None:
        self.failures.append(asked)


def test_requests() -> None:
    result = object()
    request = Request(lambda *args, **named: result if not named else refused())
    assert request.hook(1, 2) is result
    ((args, named, start, built),) = request.settled
    assert (args, named, built) == ((1, 2), {}, result) and start > 0
    request.known[id(result)] = 5
    assert request.hook() is result
    ((began, ended, known),) = request.rows
    assert start < began <= ended and known == 5 and len(request.settled) == 1
    with pytest.raises(LookupError) as raised:
        request.hook(1, op="+")
    ((args, named, _, error),) = request.failures
    assert (args, named) == ((1,), {"op": "+"}) and error is raised.value
    request.hook.is_enabled = False
    assert request.hook() is None


def test_interrupted_requests() -> None:
    result = object()
    request = Request(lambda **named: refused() if named else result)
    request.known[id(result)] = 5
    hook = made().hook("request", len, interrupted, interrupted, (request.hook, {}, interrupted))
    with pytest.raises(KeyboardInterrupt):
        hook()
    with pytest.raises(KeyboardInterrupt) as raised:
        hook(op=1)
    assert isinstance(raised.value.__context__, LookupError)
    hook = made().hook("request", len, None, None, (lambda: result, {id(result): 5}, interrupted))
    with pytest.raises(KeyboardInterrupt):
        hook()


class Marshaller:
    """As numba-cuda-mlir's: a configured launch."""

    def __init__(self) -> None:
        self._launcher: Any = object()
        self.types: Any = [int]
        self.run: Any = lambda: None

    def __call__(self, *args: Any) -> Any:
        return _current[-1].types_hook(self, self.types, args)

    def _launch(self, argtypes: Any, launch_args: Any, launch_values: Any = None) -> Any:
        self.run()
        return len(launch_args)


class Marshal:
    def __init__(self, **options: Any) -> None:
        self.launches: Launches = made(**options)
        self.begun: list[Any] = []
        self.ended: list[tuple[Any, ...]] = []
        self.answers: dict[str, Any] = {}
        self.hook: Any = self.launches.hook("marshal", Marshaller.__call__, self._begin, self._end)
        self.types_hook: Any = self.launches.hook("types", Marshaller._launch)
        _current.append(self)

    def _begin(self, marshaller: Any) -> Any:
        self.begun.append(marshaller)
        if "begin" in self.answers:
            return self.answers["begin"]()
        self.hook.know("configurations", marshaller._launcher, 3, 4)
        return 3, 4

    def _end(self, marshaller: Any, types: Any, error: str | None) -> Any:
        self.ended.append((marshaller, types, error))
        if "end" in self.answers:
            return self.answers["end"]()
        if error is None:
            self.hook.know("launches", (marshaller._launcher, types), 10, 11)
        return 10 if error is None else 20, 11


_current: list[Marshal] = []


@pytest.mark.parametrize("phases", [True, False])
def test_launches_by_launcher_and_types(phases: bool) -> None:
    marshal, one = Marshal(phases=phases), Marshaller()
    seen = []
    one.run = lambda: seen.append((marshal.launches.state().launch_config, marshal.launches.state().kernel))
    for _ in range(3):
        assert marshal.hook(one, 1, 2) == 2
    assert seen == [(one, one.types)] * 3
    assert marshal.launches.ids() == [(10, 11)] * 3 and len(marshal.begun) == 1 and len(marshal.ended) == 1
    row = marshal.launches.rows()[-1]
    assert row["dispatch_end_ns"] == row["submit_start_ns"] == -1
    assert (row["start_ns"] <= row["submit_end_ns"] <= row["end_ns"]) if phases else row["submit_end_ns"] == -1
    one.run = lambda: setattr(one, "_launcher", object())  # it is replaced meanwhile
    marshal.hook(one)
    one.types = list(one.types)
    marshal.hook(one)
    assert len(marshal.ended) == 3
    assert marshal.launches.state().launch_config is None


def test_launches_in_launches_and_failures() -> None:
    marshal, outer, inner = Marshal(), Marshaller(), Marshaller()
    outer.run = lambda: marshal.hook(inner, 1)
    inner.run = refused
    with pytest.raises(LookupError):
        marshal.hook(outer)
    assert [(each, error) for each, _, error in marshal.ended] == [(inner, "LookupError"), (outer, "LookupError")]
    assert marshal.launches.ids() == [(20, 11)] * 2
    with pytest.raises(TypeError, match="unexpected keyword argument 'stream'"):
        marshal.hook(outer, stream=2)
    with pytest.raises(TypeError):
        marshal.hook()
    assert marshal.launches.counts() == (2, 0, 0)
    inner.run = outer.run = lambda: None
    assert marshal.types_hook(outer, argtypes=[], launch_args=(1,)) == 1
    with pytest.raises(TypeError, match="missing"):
        marshal.types_hook(outer)


def test_interrupted_launches_and_ids_that_cannot_be_had() -> None:
    marshal, one = Marshal(), Marshaller()
    for answer, wanted in ((interrupted, KeyboardInterrupt), (lambda: (1, 2, OSError("a handler's")), OSError)):
        marshal.answers["begin"] = answer
        with pytest.raises(wanted):
            marshal.hook(one)
    marshal.answers["begin"] = lambda: None
    assert marshal.hook(one, 1) == 1
    assert marshal.launches.counts() == (0, 0, 0)
    del marshal.answers["begin"], one._launcher
    assert marshal.hook(one, 1) == 1  # no launch that is known here
    assert marshal.launches.counts() == (0, 0, 0)
    one = Marshaller()
    for answer, wanted in ((interrupted, KeyboardInterrupt), (lambda: (1, 2, OSError("a handler's")), OSError)):
        marshal.answers["end"] = answer
        with pytest.raises(wanted):
            marshal.hook(one)
    marshal.answers["end"] = lambda: None
    assert marshal.hook(one) == 0
    assert marshal.launches.counts() == (1, 0, 2) and marshal.launches.state().launch_config is None


@pytest.mark.slow
def test_references() -> None:
    algorithm, stream, built = Algorithm(reduce), Stream(7), Scan(True)
    method = Algorithm(Built.__call__, method=True)
    stays([reduce, stream, algorithm.hook], lambda: algorithm.hook(num_items=1, stream=stream))
    stays([reduce, stream, refused], failing(lambda: (algorithm.ended.clear(),
                                                     algorithm.hook(num_items=refused, stream=stream))))
    stays([reduce], failing(lambda: algorithm.hook()))
    stays([built, stream, method.hook], lambda: method.hook(built, temp_storage=1, stream=stream))
    method.answer = lambda: None
    stays([built, stream, method.hook], lambda: (method.hook(built, temp_storage=1, stream=Stream(8)),
                                                 method.asked.clear()))
    marshal, one, argument = Marshal(), Marshaller(), object()
    stays([one, one._launcher, one.types, argument, marshal.hook], lambda: marshal.hook(one, argument))
    one.run = refused
    stays([one, one._launcher, one.types, argument], failing(lambda: (marshal.ended.clear(),
                                                                     marshal.hook(one, argument))))
    result = object()
    request = Request(lambda *args, **named: refused() if named else result)
    stays([argument, result], lambda: (request.hook(argument), request.settled.clear()))
    stays([argument], failing(lambda: (request.failures.clear(), request.hook(op=argument))))
    request.known[id(result)] = 5
    stays([argument, result], lambda: (request.hook(argument), request.rows.clear()))


def test_threads() -> None:
    """They launch with the same objects while another one ends the hooks."""
    marshal, one, algorithm = Marshal(), Marshaller(), Algorithm(reduce)
    problems: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(2000):
                marshal.hook(one, number)
                algorithm.hook(num_items=number, stream=Stream(number % 100))
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    marshal.hook.is_enabled = False
    marshal.hook.forget()
    for each in threads:
        each.join()
    assert not problems
    assert algorithm.launches.counts() == (8000, 0, 0)
    assert marshal.launches.counts()[0] <= 8000 and marshal.launches.counts()[1:] == (0, 0)
