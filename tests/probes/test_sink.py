"""The sink's buffers and interning."""

from __future__ import annotations

import sys
import threading

import pytest

from kernelscope.probes.sink import Sink


def test_each_thread_has_its_own_state():
    sink = Sink()
    threads = [threading.Thread(target=lambda: sink.launch(1, 2, 0, 0)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sink.log.columns()["site"].tolist()) == list(range(5))
    assert [state.thread_id for state in sink.threads] == list(range(5))


def test_a_thread_with_the_ident_of_one_that_ended_is_another_thread():
    sink = Sink()
    idents = set()
    for _ in range(20):
        thread = threading.Thread(target=lambda: (idents.add(threading.get_ident()), sink.launch(1, 2, 0, 0)))
        thread.start()
        thread.join()
    assert len(idents) < 20, "the system gave every thread an ident of its own: nothing is tested"
    assert len(sink.threads) == 20
    assert len(sink.states) == 0


def test_equal_rows_get_one_id():
    sink = Sink()
    first = sink.configuration((1,), (32,))
    assert sink.configuration((1, 1), (32, 1, 1)) == first
    assert sink.configuration((1,), (32,), stream=5) != first
    assert sink.configuration((1,), (32,), cluster=(2,)) not in (first,)
    assert len(sink.configurations) == 3
    assert sink.configurations.rows[first]["griddim_z"] == 1


def test_interning_from_many_threads_gives_each_key_one_row():
    sink = Sink()
    barrier = threading.Barrier(8)

    def work():
        barrier.wait()
        for number in range(200):
            sink.target(number)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sink.targets) == 200
    assert [row["dispatcher_id"] for row in sink.targets.rows] == list(
        dict.fromkeys(row["dispatcher_id"] for row in sink.targets.rows))


def test_a_thread_that_a_signal_handler_interrupts_while_its_state_is_made_leaves_no_trace(monkeypatch):
    class OutOfTime(Exception):
        pass

    def raised(*_):
        raise OutOfTime

    sink = Sink()
    with monkeypatch.context() as patch:
        patch.setattr("kernelscope.probes.sink.weakref.ref", raised)
        with pytest.raises(OutOfTime):
            sink.state()
    assert sink.threads == []
    assert sink.state().thread_id == 0  # and Python has nothing to say of a finalizer, which would be an error here


@pytest.mark.parametrize("line", range(1, 18))
def test_a_signal_handler_may_be_first_in_the_middle_of_a_threads_first_launch(line):
    sink, begun = Sink(), []

    def in_state(frame, event, argument):
        if event == "line" and not begun and frame.f_lineno == Sink.state.__code__.co_firstlineno + line:
            begun.append(line)
            sys.settrace(None)
            sink.state()
        return in_state

    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: in_state if frame.f_code is Sink.state.__code__ else None)
    try:
        state = sink.state()
    finally:
        sys.settrace(before)
    assert sink.state() is state
    assert [each.thread_id for each in sink.threads] == [0]


@pytest.mark.parametrize("line", range(1, 25))
def test_a_signal_handler_may_add_a_row_in_the_middle_of_another(line):
    table, begun = Sink().dispatchers, []
    code = type(table).intern.__code__

    def in_intern(frame, event, argument):
        if event == "line" and not begun and frame.f_lineno == code.co_firstlineno + line:
            begun.append(line)
            sys.settrace(None)
            table.intern("handler", lambda: {"name": "handler"})
        return in_intern

    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: in_intern if frame.f_code is code else None)
    try:
        table.intern("cell", lambda: {"name": "cell"})
    finally:
        sys.settrace(before)
    for key in ("cell", "handler")[:1 + len(begun)]:
        assert table.rows[table.find(key)]["name"] == key
