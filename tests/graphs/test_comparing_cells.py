"""A recorded cell is run again and compared."""

from __future__ import annotations

from typing import Any

import pytest

import kernelscope
from kernelscope.errors import GraphError, UnknownCellError
from kernelscope.graphs import from_recording
from kernelscope.graphs.cell_source import prepared

pytestmark = pytest.mark.usefixtures("nothing_is_left", "measured")

SAMPLES = 5


def test_a_cell_is_run_again_in_a_namespace(cuda, step, capsys, recorded) -> None:
    source = ("%%kernelscope -q\nruns += 1\nout = cuda.device_array(4)\nstep[1, 1](out)\nstep[1, 1](out)\n"
              "out.copy_to_host()\n")
    names = {"step": step, "cuda": cuda, "runs": 0}
    recording = recorded(source, names)
    told: list[str] = []
    result = from_recording(recording, namespace=names, samples=SAMPLES, tell=told.append)
    assert names["runs"] == 2
    assert told == ["kernelscope: cell 5 is run again, in the namespace given: what it does to variables, files and "
                    "arrays happens again"]
    assert result.run_again == "Cell 5 was run again once, in the namespace given; its arrays are as after that run."
    assert (result.label, result.launches) == ("cell 5", 2)
    assert result.left_out == ("device_array at line 3", "copy_to_host at line 6")
    assert from_recording(recording, 5, names, samples=SAMPLES).label == "cell 5"
    assert "is run again" in capsys.readouterr().out


def test_a_cell_that_defines_its_kernel(cuda, array, recorded) -> None:
    source = ("from numba import cuda\n@cuda.jit\ndef inner(a):\n    a[0] = 1\n"
              "for _ in range(3):\n    inner[1, 1](mine)\n")
    recording = recorded(source, names := {"mine": array}, name="warm up", number=None)
    result = from_recording(recording, "warm up", names, samples=SAMPLES)
    assert (result.label, result.kernels) == ("the cell 'warm up'", ("inner",))
    assert result.run_again.startswith("The cell 'warm up' was run again once")


def test_the_array_s_variable_is_named(cuda, step, array, monkeypatch, recorded) -> None:
    found: list[Any] = []
    monkeypatch.setattr("kernelscope.graphs.comparison.differences",
                        lambda _, arrays: found.extend(arrays.values()) or [])
    names = {"step": step, "_hidden": array, "mine": array}
    from_recording(recorded("step[1, 1](mine)", names), namespace=names, samples=SAMPLES)
    assert found == ["mine (a of step)"]


LOOP = """copies = [cuda.device_array(4) for _ in range(2)]
scale[1, 1](a, 1.5, a)
for turn in range(30):
    copies[0].copy_to_device(a)
    step[1, 1](a)
    scale[2, 32](a, float(turn), copies[0])
    a.copy_to_host()
    step[1, 1](copies[1])
"""


def test_one_round_of_a_loop(cuda, step, scale, array, counted, recorded) -> None:
    """The launches that the advice on the recording calls a round, from one wait to the next."""
    from kernelscope.analysis.advice import repetition

    names = {"step": step, "scale": scale, "cuda": cuda, "a": array}
    recording = recorded(LOOP, names)
    loop = repetition(recording)
    assert loop is not None
    counted()
    result = from_recording(recording, namespace=names, samples=SAMPLES)
    assert (loop.rounds, len(loop.dispatchers)) == (30, 3)
    assert (result.rounds, result.launches, result.copies, result.nodes) == (30, 3, 1, 4)
    assert [recording.dispatchers.name[at].rpartition(".")[2] for at in loop.dispatchers] == ["step", "scale", "step"]
    assert sorted(result.kernels) == ["scale", "step"]
    # The cell once; the round once for its results, and for each of two times 2 + 5 times; the graph as often.
    assert counted() == (91 + 3 * 15, 3, 15, 3 * 15)
    assert result.equal is True
    assert [each.partition(" at ")[0] for each in result.left_out] == ["device_array", "copy_to_host"]
    assert result.notes == ("1 launch outside of the rounds is left out.",)
    said = str(result)
    assert said.startswith("What if a round of cell 5 were a graph: 3 launches of ")
    assert "Cell 5 made 30 such rounds one after another." in said
    assert "Left out, because it comes outside of the round: device_array at line 1, copy_to_host at line 7." in said


def test_a_round_is_compared_with_the_same_round(cuda, step, scale, array, monkeypatch, recorded) -> None:
    """What 30 rounds left of an array is not what one leaves; and in the end it is what 30 left."""
    source = "for _ in range(30):\n    step[1, 1](a)\n    a[0:3].copy_to_device(a[1:4])\n    scale[1, 1](a, 2.0, a)\n"
    result = from_recording(recorded(source, names := {"step": step, "scale": scale, "a": array}), namespace=names,
                            samples=SAMPLES)
    assert (result.rounds, result.copies, result.equal) == (30, 1, True)
    assert array.copy_to_host().tolist() == [3.0] * 4


def test_rounds_that_no_graph_can_hold(cuda, step, scale, array, recorded) -> None:
    source = "for _ in range(20):\n    step[1, 1](a)\n    a[0]\n    scale[1, 1](a, 2.0, a)\n    cuda.synchronize()\n"
    names = {"step": step, "scale": scale, "cuda": cuda, "a": array}
    with pytest.raises(GraphError, match="a round of cell 5 cannot be a graph as it is: __getitem__ at line 3 copies"):
        from_recording(recorded(source, names), namespace=names)


@pytest.mark.parametrize("source", [
    "for _ in range(19):\n    step[1, 1](a)\n    scale[1, 1](a, 2.0, a)\n",
    "for _ in range(50):\n    step[1, 1](a)\n",
    "for turn in range(25):\n    step[turn + 1, 1](a)\n    scale[1, turn + 1](a, 2.0, a)\n",
    "for turn in range(25):\n    step[1, 1](a[turn % 2::2])\n    scale[1, 1](a, turn % 3 or 1.5, a)\n",
])
def test_no_plain_loop_is_one_graph(source, cuda, step, scale, array, recorded) -> None:
    from kernelscope.analysis.advice import repetition

    recording = recorded(source, names := {"step": step, "scale": scale, "a": array})
    result = from_recording(recording, namespace=names, samples=SAMPLES)
    loop = repetition(recording)
    assert (result.rounds is None) == (loop is None), "as the advice has it"
    assert loop is not None or result.launches == len(recording.launches)


def test_which_cell(cuda, step, array, recorded) -> None:
    from kernelscope.recording.merge import merge

    names = {"step": step, "a": array}
    parts = [recorded("step[1, 1](a)", names, number=1), recorded("step[1, 1](a); step[1, 1](a)", names, number=2)]
    whole = merge(parts, name="")
    assert from_recording(whole, namespace=names, samples=SAMPLES).launches == 2
    assert from_recording(whole, 1, names, samples=SAMPLES).launches == 1
    with pytest.raises(UnknownCellError, match="no recorded cell 7; known: .*cell 1.*, cell 2"):
        from_recording(whole, 7, names)


@pytest.mark.parametrize(("source", "message"), [
    (None, "cell 5 cannot be run again: the recording does not have its source"),
    ("%%time\nstep[1, 1](a)", "it begins with the cell magic '%%time'"),
    ("step[1, 1](a)\nthis is", "line 2 is no Python"),
    ("step[1, 1](a)\nawait f()", "it awaits at its top level"),
])
def test_sources_that_cannot_run(source, message, cuda, step, array) -> None:
    recorder = kernelscope.record(gpu="none")
    with recorder:
        recorder.begin_cell(execution_count=5, source=source)
        step[1, 1](array)
    with pytest.raises(GraphError, match=message):
        from_recording(recorder.recording, namespace={"step": step, "a": array})


def cell(framework: str = "numba-cuda", *, launched: bool = True, event: str = "upload", also: Any = None,
         **launch: Any) -> Any:
    """A recording of a cell with a launch, a graph's event, and one more activity."""
    from handmade import Script

    made = Script()
    made.cell(execution_count=3, source="x")
    if launched:
        made.kernel(framework=framework)
        made.specialization()
        made.configuration()
        made.graph()
        made.graph_event(event)
        made.activity(launch_id=made.launch(**launch))
        made.activity(specialization_id=0)  # not joined, as where no phases were recorded
    if also:
        made.activity(**also)
    return made.recording()


@pytest.mark.parametrize(("recording", "message"), [
    (cell("cuda.core"), "it launched kernels of cuda.core, and only launches of numba-cuda"),
    (cell(also={"name": "gemm"}), "1 kernel of it was launched by other libraries or by a graph"),
    (cell(also={"specialization_id": 0, "cupti_graph_id": 3}), "or by a graph .the first is 'axpy'"),
    (cell(launched=False), "cell 3 cannot be a graph: it launched nothing"),
    (cell(event="launch"), r"cell 3 cannot be compared: it launched graphs \(1 launch\), and only"),
    (cell(event="capture", capture_event_id=0), "1 launch of it went into a graph that its code captures itself"),
])
def test_cells_that_are_not_run(recording: Any, message: str) -> None:
    assert prepared(cell(), None).label == "cell 3"
    with pytest.raises(GraphError, match=message):
        prepared(recording, 3)
