"""Graph kernels of Quadrants: which launches were graph launches, which fell back, and what is said of them."""

from __future__ import annotations

import json

from handmade import Script

from kernelscope.analysis.advice import graph_kernels

HOST = "the backend x64 makes no graphs"


def graph_kernel(script: Script, name: str = "step", graph: bool = True) -> int:
    return script.kernel(name, framework="quadrants", options=json.dumps({"graph": True}) if graph else None)


def compiled(script: Script, kernel: int, because: str | None = None, loops: int = 0) -> int:
    held = {"graph": True, "do_while": [{"while": "count", "inside": None}] * loops}
    return script.specialization(kernel, attributes=json.dumps(held | ({"plain_because": because} if because else {})))


def launched(script: Script, kernel: int, specialization: int, graph: bool = False, thread: int = 0,
             **row: object) -> None:
    if graph:
        now = script.now
        script.graph_event("launch", None, 1_000, start_ns=now + 8_000, exec_id=0, thread_id=thread)
        script.now = now
    script.launch(kernel, specialization=specialization, thread_id=thread, **row)


def test_launches_are_told_apart() -> None:
    script = Script()
    script.cell()
    step, plain = graph_kernel(script), graph_kernel(script, "plain", graph=False)
    one, two = compiled(script, step), compiled(script, step, HOST, loops=2)
    other = compiled(script, plain)
    script.configuration()
    script.graph_event("instantiate", None)
    for _ in range(3):
        launched(script, step, one, graph=True)
    launched(script, step, two)
    launched(script, step, two)
    launched(script, plain, other)
    (found,) = graph_kernels(script.recording())
    assert (found.name, found.launches, found.replayed, found.plain, found.loops) == ("step", 5, 3, 2, 2)
    assert found.plain_ns == 20_000
    assert found.because == (HOST,)


def test_graph_launch_of_another_thread_is_not_its() -> None:
    script = Script()
    script.cell()
    step = graph_kernel(script)
    one = compiled(script, step, HOST)
    script.configuration()
    now = script.now
    script.graph_event("launch", None, 1_000, start_ns=now + 8_000, exec_id=None, thread_id=1)
    script.now = now
    launched(script, step, one)
    (found,) = graph_kernels(script.recording())
    assert (found.replayed, found.plain) == (0, 1)


def test_nothing_is_said_where_graphs_were_not_watched() -> None:
    script = Script()
    script.cell()
    step = graph_kernel(script)
    one = compiled(script, step)
    script.configuration()
    launched(script, step, one)
    (found,) = graph_kernels(script.recording())
    assert (found.launches, found.replayed, found.plain) == (1, 0, 0)


def test_failed_launches_do_not_count() -> None:
    script = Script()
    script.cell()
    step = graph_kernel(script)
    one = compiled(script, step, HOST)
    script.configuration()
    launched(script, step, one, error="RuntimeError")
    assert graph_kernels(script.recording()) == []


def test_recordings_without_quadrants_have_none() -> None:
    script = Script()
    script.cell()
    script.kernel()
    script.specialization()
    script.configuration()
    script.launch()
    assert graph_kernels(script.recording()) == []
