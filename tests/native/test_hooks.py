"""Hooks: what callers see of them, how they go, and what stays of a function whose calls ran through one."""

from __future__ import annotations

import asyncio
import copy
import ctypes
import dis
import gc
import inspect
import pickle
import pydoc
import sys
import sysconfig
import traceback
import weakref
from functools import update_wrapper
from typing import Any

import pytest

#: Without the interpreter's lock another thread may have found a hook and not begun: it stays, and holds its function.
KEEPS_HOOKS = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def shown(dispatcher: Any, args: Any = (1, 2), launch_config: Any = None, *, key: int = 3) -> Any:
    """Say what came in."""
    return dispatcher, args, launch_config, key


def failing(dispatcher: Any, args: Any, launch_config: Any) -> Any:
    raise LookupError(args)


def vectorcall_of(function: Any) -> int:
    """The address that CPython calls a function at: the member ``vectorcall`` of its structure."""
    offset = type(function).__basicsize__ // 8
    words = (ctypes.c_size_t * offset).from_address(id(function))
    return words[VECTORCALL]


def _vectorcall_word() -> int:
    """Where it is: among the words that two functions have in common."""
    # The last word is a number of 4 bytes, and what nobody has written behind it.
    count = type(shown).__basicsize__ // 8 - 1
    words = [(ctypes.c_size_t * count).from_address(id(each)) for each in (shown, failing)]
    # The last of the pointers that are alike is the vectorcall: what is behind it differs, or is no pointer.
    alike = [place for place in range(2, count) if words[0][place] == words[1][place] > 2**20]
    return alike[-1]


VECTORCALL = _vectorcall_word()


def test_arguments_and_results_pass(launches: Any) -> None:
    call = launches.hook(shown)
    config = object()
    assert call("d", "a", config) == ("d", "a", config, 3)
    assert call("d", args="a", launch_config=config, key=5) == ("d", "a", config, 5)
    assert call("d", "a", launch_config=config) == ("d", "a", config, 3)
    assert len(launches.rows()) == 3
    assert call("d") == ("d", (1, 2), None, 3)  # without a configuration it is no launch
    assert call(launch_config=config, dispatcher="d") == ("d", (1, 2), config, 3)
    with pytest.raises(TypeError, match="dispatcher"):
        call()
    with pytest.raises(TypeError, match="unexpected keyword"):
        call("d", "a", config, none=1)
    assert len(launches.rows()) == 4  # the call that failed is a launch that failed


@pytest.mark.parametrize("takes", [False, True])
def test_it_shows_what_it_stands_for(launches: Any, takes: bool) -> None:
    before = (inspect.signature(shown), pydoc.render_doc(shown, renderer=pydoc.plaintext), pickle.dumps(shown))
    hook = launches.core.Hook("call", shown, launches.ring)
    if takes:
        if not launches.core.TAKES_FUNCTIONS:
            pytest.skip("this Python runs a function's code whatever its vectorcall is")
        hook.take()
        launches.hooks.append(hook)
        call = shown
        assert (shown.__code__.co_name, shown.__defaults__) == ("shown", ((1, 2), None))
        assert pickle.dumps(call) == before[2]
        assert pickle.loads(before[2]) is call
        assert pydoc.render_doc(call, renderer=pydoc.plaintext) == before[1]
    else:
        call = update_wrapper(hook, shown)
        assert copy.copy(call) is copy.deepcopy(call) is call
        assert "Say what came in." in pydoc.render_doc(call, renderer=pydoc.plaintext)
        assert inspect.unwrap(call) is shown is call.original
        assert inspect.isroutine(call)
        with pytest.raises(pickle.PicklingError, match="not the same object"):
            pickle.dumps(call)  # as of any wrapper that nobody finds under the name
    assert inspect.signature(call) == before[0]
    assert (call.__name__, call.__qualname__, call.__module__, call.__doc__) == (
        "shown", "shown", __name__, "Say what came in.")
    assert call.__code__ is shown.__code__
    assert repr(call) == repr(shown)
    assert weakref.ref(call)() is call
    with pytest.raises(AttributeError, match="nothing"):
        _ = call.nothing


def test_it_binds_as_a_function_does(launches: Any) -> None:
    class Kernel:
        call = launches.core.Hook("call", shown, launches.ring, lambda *a: (1, 2), lambda *a: (3, 1))

    kernel = Kernel()
    assert kernel.call("a", "c") == (kernel, "a", "c", 3)
    method = kernel.call
    assert method("a", "c") == (kernel, "a", "c", 3)
    assert (method.__self__, method.__func__) == (kernel, vars(Kernel)["call"])
    assert Kernel.call(kernel, "a", "c") == (kernel, "a", "c", 3)
    assert inspect.signature(kernel.call) == inspect.signature(shown.__get__(kernel))
    assert len(launches.rows()) == 3


@pytest.mark.parametrize("answer", [None, 5, (), (1,), ("a", "b"), (1, None), (2**80, 1), [1, 2]])
def test_wrong_answers_are_nothing_to_the_user(launches: Any, answer: Any) -> None:
    call = launches.hook(shown)
    launches.begin = lambda *arguments: answer
    assert call(1, 2, 3) == (1, 2, 3, 3)
    assert launches.ring.mark() == (0, 0)
    launches.begin, launches.end = (lambda *arguments: (1, 2)), lambda *arguments: answer
    assert call(1, 2, 3) == (1, 2, 3, 3)
    assert launches.ring.counts(0) == (0, 0, 1, 1, 0)


def test_the_end_of_a_launch_that_is_not_known_is_told_its_arguments(launches: Any) -> None:
    def launch(dispatcher: Any, args: Any, launch_config: Any) -> None:
        found(dispatcher, "kernel", launch_config)

    ends: list[tuple[Any, ...]] = []

    def end(*arguments: Any) -> tuple[int, int]:
        ends.append(arguments)
        return 3, 1

    found, call, launches.end = launches.hook(lambda *_: None, "found"), launches.hook(launch), end
    config = object()
    call("dispatcher", (1, 2), config)
    call("dispatcher", args=(3,), launch_config=config)
    assert ends == [("dispatcher", "kernel", config, given, None) for given in ((1, 2), (3,))]


def test_without_anybody_to_ask_nothing_is_recorded(launches: Any) -> None:
    hook = launches.core.Hook("call", shown, launches.ring)
    assert hook(1, 2, 3) == (1, 2, 3, 3)
    hook.know("configurations", config := object(), 0, 0)
    assert hook(1, 2, config) == (1, 2, config, 3)
    assert launches.ring.counts(0) == (0, 0, 1, 1, 0)


def test_undo_is_exact(launches: Any) -> None:
    if not launches.core.TAKES_FUNCTIONS:
        pytest.skip("this Python runs a function's code whatever its vectorcall is")

    def function(dispatcher: Any, args: Any, config: Any) -> Any:
        return config

    def state() -> list[Any]:
        return [vectorcall_of(function), function.__code__, function.__dict__.copy(), function.__defaults__,
                function.__kwdefaults__, function.__closure__, function.__globals__, id(function)]

    before, count = state(), sys.getrefcount(function)
    for _ in range(3):
        hook = launches.core.Hook("call", function, launches.ring, lambda *a: (1, 2), lambda *a: (3, 1))
        hook.take()
        assert vectorcall_of(function) != before[0]
        assert state()[1:] == before[1:]
        assert function(1, 2, 3) == 3
        assert hook.give_back() is True
        assert state() == before
        assert function(1, 2, 3) == 3
        del hook
    assert KEEPS_HOOKS or sys.getrefcount(function) == count
    assert len(launches.rows()) == 3


@pytest.mark.parametrize("change", ["", "__code__", "__defaults__", "__kwdefaults__"])
def test_calls_are_specialized_as_before_unless_it_was_changed(launches: Any, change: str) -> None:
    """The interpreter's instructions for a call are made for a version of the function, which a change takes away."""
    def called(first: int, second: int = 2, *, third: int = 3) -> int:
        return first + second + third

    def other(first: int, second: int = 2, *, third: int = 3) -> int:
        return -1

    def caller() -> tuple[int, list[str]]:
        for _ in range(3000):
            answer = called(1, 2)
        return answer, [each.opname for each in dis.get_instructions(caller, adaptive=True)]

    assert caller()[0] == 6
    before = caller()
    launches.hook(called)
    assert caller()[0] == 6
    values = {"__code__": other.__code__, "__defaults__": (20,), "__kwdefaults__": {"third": 30}}
    if change:
        setattr(called, change, values[change])
    launches.close()
    if change:
        assert caller()[0] == {"__code__": -1, "__defaults__": 6, "__kwdefaults__": 33}[change]
    else:
        assert caller() == before


def test_taken_and_given_back_twice(launches: Any) -> None:
    if not launches.core.TAKES_FUNCTIONS:
        with pytest.raises(RuntimeError, match="without asking for its vectorcall"):
            launches.core.Hook("call", shown, launches.ring).take()
        pytest.skip("this Python runs a function's code whatever its vectorcall is")
    own = vectorcall_of(shown)
    first, second = (launches.core.Hook("call", shown, launches.ring, lambda *a: (1, 2), lambda *a: (3, 1))
                     for _ in range(2))
    assert first.give_back() is True  # it has taken nothing
    first = launches.core.Hook("call", shown, launches.ring, lambda *a: (1, 2), lambda *a: (3, 1))
    first.take()
    for hook in (first, second):
        with pytest.raises(RuntimeError, match="run through a hook already"):
            hook.take()
    assert second.give_back() is True
    assert len([shown(1, 2, 3), shown(1, 2, 3)]) == len(launches.rows()) == 2
    assert first.give_back() is first.give_back() is True
    with pytest.raises(RuntimeError, match="run through a hook already"):
        first.take()
    third = launches.core.Hook("call", shown, launches.ring, lambda *a: (1, 2), lambda *a: (3, 1))
    third.take()
    count = sys.getrefcount(first)
    assert first.give_back() is True  # the function is another hook's by now
    assert sys.getrefcount(first) == count
    shown(1, 2, 3)
    assert len(launches.rows()) == 3
    assert vectorcall_of(shown) != own
    assert third.give_back() is True
    assert vectorcall_of(shown) == own


def test_only_functions_are_taken(launches: Any) -> None:
    for callable_ in (len, print, int, shown.__get__(1), launches.core.Hook("call", shown, launches.ring)):
        with pytest.raises((TypeError, RuntimeError), match="no Python function|without asking"):
            launches.core.Hook("call", callable_, launches.ring).take()


def test_a_function_that_is_deleted_while_it_is_taken(launches: Any) -> None:
    def function(dispatcher: Any, args: Any, config: Any) -> int:
        return 7

    gone = weakref.ref(function)
    call = launches.hook(function)
    del function
    gc.collect()
    assert call(1, 2, 3) == 7
    hook = launches.hooks.pop()
    del call
    gc.collect()
    assert gone() is not None
    assert hook(1, 2, 3) == 7
    hook.give_back()
    del hook
    gc.collect()
    assert KEEPS_HOOKS or gone() is None


def test_hooks_over_each_other(launches: Any, make: Any) -> None:
    """Of two rings: each has every launch, and the states of neither are mixed up."""
    other = make()
    inner = launches.hook(shown)
    outer = other.hook(inner, takes=False)
    for _ in range(50):
        assert outer(1, 2, 3) == (1, 2, 3, 3)
    assert len(launches.rows()) == len(other.rows()) == 50
    tracked = [each for each in gc.get_referents(launches.ring) if isinstance(each, list)]
    assert [len(each) for each in tracked] == [1], "the states that a ring holds"


def test_more_functions_than_there_is_room_for(launches: Any) -> None:
    if not launches.core.TAKES_FUNCTIONS:
        pytest.skip("this Python runs a function's code whatever its vectorcall is")
    functions = [eval(f"lambda dispatcher, args, config: {number}") for number in range(1100)]
    refused = 0
    for function in functions:
        try:
            launches.hook(function)
        except RuntimeError as error:
            assert "no room" in str(error)
            refused += 1
    assert refused == 1100 - 256
    assert [function(1, 2, 3) for function in functions] == list(range(1100))
    assert len(launches.rows()) == 256
    launches.close()
    launches.hooks.clear()
    for function in functions[:100]:
        launches.hook(function)
    assert [function(1, 2, 3) for function in functions] == list(range(1100))
    assert len(launches.rows()) == 356


def test_a_traceback_has_no_frame_of_ours(launches: Any) -> None:
    call = launches.hook(failing)
    with pytest.raises(LookupError) as caught:
        call(1, "no", 3)
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)] == [
        "test_a_traceback_has_no_frame_of_ours", "failing"]
    assert caught.value.__context__ is caught.value.__cause__ is None
    row, = launches.rows()
    assert (row["target"], row["configuration"]) == (3, 1)


def test_generators_and_coroutines(launches: Any) -> None:
    def generate(dispatcher: Any, args: Any, config: Any) -> Any:
        yield from range(args)

    async def wait(dispatcher: Any, args: Any, config: Any) -> int:
        await asyncio.sleep(0)
        return args

    generate_, wait_ = launches.hook(generate), launches.hook(wait)

    async def all_of_them() -> list[int]:
        return await asyncio.gather(*(wait_(None, number, 3) for number in range(10)))

    assert list(generate_(None, 4, 3)) == [0, 1, 2, 3]
    assert asyncio.run(all_of_them()) == list(range(10))
    assert len(launches.rows()) == 11  # what is launched is the call, which returns at once


@pytest.mark.parametrize("tool", ["settrace", "setprofile", "monitoring"])
def test_while_other_tools_look_on(launches: Any, tool: str) -> None:
    call, seen = launches.hook(shown), []
    if tool == "monitoring":
        if sys.version_info < (3, 12):
            pytest.skip("there is no sys.monitoring")
        events = sys.monitoring.events
        sys.monitoring.use_tool_id(4, "test")
        sys.monitoring.register_callback(4, events.PY_START, lambda code, offset: seen.append(code.co_name))
        sys.monitoring.set_events(4, events.PY_START | events.CALL | events.PY_RETURN)
        try:
            results = [call(1, 2, 3) for _ in range(100)]
        finally:
            sys.monitoring.set_events(4, 0)
            sys.monitoring.free_tool_id(4)
    else:
        before = getattr(sys, tool.replace("set", "get"))()
        getattr(sys, tool)(lambda frame, event, argument: seen.append(frame.f_code.co_name) or None)
        try:
            results = [call(1, 2, 3) for _ in range(100)]
        finally:
            getattr(sys, tool)(before)
    assert results == [(1, 2, 3, 3)] * 100
    assert seen.count("shown") >= 100
    assert len(launches.rows()) == 100
