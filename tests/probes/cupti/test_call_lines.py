"""The lines of what only CUPTI sees: kernels, copies, waits and graph launches of other libraries."""

from __future__ import annotations

import ctypes
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cupti_stand_in import OFFSET, StandIn, health
from ways_to_launch import (
    lines_of,
    named_lines,
    program_of,
    project,
    record_each,
    run_program,
    ways_of,
    without_of,
)

import kernelscope
from kernelscope.clock import now
from kernelscope.native import core
from kernelscope.probes.cupti import CuptiProbe
from kernelscope.probes.cupti.library import Cupti
from kernelscope.probes.cupti.lines import BackwardWatch
from kernelscope.probes.sink import Sink
from kernelscope.recorder.recorder import Recorder

pytestmark = [pytest.mark.every_python,
              pytest.mark.skipif(not core.READS_FRAMES, reason="frames cannot be read without the interpreter's lock")]

#: A library in C, as far as Python is concerned, with a module around it that is installed.
INSTALLED = """
def call(domain, number, id=0):
    start = now()
    return function(domain, number, ident(), start, start + 1000, 0, id)
def soon():
    start = now() + 2000
    return start, start + 1000
def kernel(x):
    seen.kernel(call(1, 4), "theirs", *soon())
def copy():
    seen.copy(call(1, 20), 1, 1, 3, 64, *soon())
def memset():
    seen.memset(call(1, 90), 3, 64, *soon())
def wait():
    seen.wait(call(1, 40), 4, *soon())
def graph():
    id = call(1, 22)
    for node in (0, 1):
        seen.kernel(id, "node", *soon(), graph=1, node=(1 << 32) + node)
def runtime():
    id = call(2, 7)
    call(1, 3, id)
    seen.kernel(id, "theirs", *soon())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with project(tmp_path_factory.mktemp("lines")) as here:
        yield here


def theirs(stand_in: StandIn, folder: Path, library: Any = None) -> dict[str, Any]:
    """The names in programs; calls of `library`, a ctypes library, keep the interpreter's lock or not."""
    function = (library or stand_in.library).stand_in_call
    function.restype = ctypes.c_uint32
    function.argtypes = [ctypes.c_int, ctypes.c_uint32, *[ctypes.c_uint64] * 3, ctypes.c_int, ctypes.c_uint32]

    held: dict[str, Any] = {"seen": stand_in, "now": now, "OFFSET": OFFSET,
                            "ident": threading.get_ident, "function": function}
    path = folder.parent / "venv" / "site-packages" / "installed.py"
    exec(compile(INSTALLED, str(path), "exec"), held)
    return {**held, "k": held["kernel"], "x": 3}


@pytest.mark.parametrize("stacks", [False, True])
@pytest.mark.parametrize("has_lock", [False, True])
def test_the_line_is_the_one_that_a_person_would_name(
        has_lock: bool, stacks: bool, stand_in: StandIn, cupti: Cupti, folder: Path) -> None:
    names = theirs(stand_in, folder, ctypes.PyDLL(stand_in.path) if has_lock else None)
    each = record_each(ways_of("cupy") | without_of("cupy"), folder, names, probes=[CuptiProbe(cupti)], stacks=stacks)
    wrong = {way: (lines_of(each[way], "activities"), named_lines(folder, program))
             for way, program in ways_of("cupy").items()
             if lines_of(each[way], "activities") != named_lines(folder, program)}
    assert wrong == {}
    for way in without_of("cupy"):
        assert lines_of(each[way], "activities") == {("", 0)}
    for recording in each.values():
        lines = recording.rows("lines")
        frames = [lines[row["line_id"]] for row in recording.rows("stacks")]
        parents = [row["parent_stack_id"] for row in recording.rows("stacks")]
        for row in recording.rows("activities"):
            assert (row["stack_id"] is not None) == (stacks and row["line_id"] is not None)
            at, path = row["stack_id"], []
            while at is not None:
                path.append(frames[at])
                at = parents[at]
            if path:  # from the library's function outwards: the first of the user's is the line
                assert path[0]["function"] == "call" and not path[0]["user_code"] and path[-1]["user_code"]
                assert next(line for line in path if line["user_code"]) == lines[row["line_id"]]


@pytest.fixture
def recorded(stand_in: StandIn, cupti: Cupti, folder: Path) -> Callable[..., Any]:
    """Runs a program while it is recorded."""
    def run(program: str, more: dict[str, Any] | None = None, **options: Any) -> Any:
        with Recorder(probes=[CuptiProbe(cupti)], **options) as recorder:
            run_program(program_of(folder, program), theirs(stand_in, folder) | (more or {}))
        return recorder.recording

    return run


@pytest.mark.parametrize(("call", "kind"), [
    ("copy", "memcpy"), ("memset", "memset"), ("wait", "sync"), ("graph", "kernel"), ("runtime", "kernel")])
def test_copies_waits_graphs_and_calls_of_the_runtime(
        call: str, kind: str, recorded: Callable[..., Any], folder: Path) -> None:
    program = f"def step():\n    {call}()  # <\nstep()\nstep()"
    recording = recorded(program)
    assert lines_of(recording, "activities", kind) == named_lines(folder, program)
    if call == "graph":
        assert lines_of(recording, "graph_events", "launch") == named_lines(folder, program)
    (row,) = recording.by_line().to_dict("records")
    assert (row["line"], row["function"]) == (2, "step")
    assert row["gpu_ns"] == (0 if call == "wait" else 4_000 if call == "graph" else 2_000)
    assert row["wait_ns"] == (2_000 if call == "wait" else 0)
    assert row["copied_bytes"] == (128 if call == "copy" else 0)


def test_an_exception_that_is_on_its_way_stays(stand_in: StandIn, recorded: Callable[..., Any], folder: Path) -> None:
    """A library may call the driver while it raises."""
    raising = ctypes.PyDLL(stand_in.path).stand_in_call
    raising.argtypes = [ctypes.c_int, ctypes.c_uint32, *[ctypes.c_uint64] * 3, ctypes.c_int, ctypes.c_uint32]

    class Releasing:
        def __del__(self) -> None:
            raising(1, 4, 1, 0, 0, 0, 0)

    program = "def step():\n    held = Releasing()\n    raise KeyError(3)\ntry:\n    step()\nexcept KeyError as e:\n" \
              "    assert e.args == (3,)\nelse:\n    raise AssertionError"
    recorded(program, {"Releasing": Releasing})


def test_a_busy_interpreter_delays_nobody_for_long(
        stand_in: StandIn, recorded: Callable[..., Any], folder: Path) -> None:
    """A library may hold a lock that who has the interpreter's lock waits for: its call goes on without a line."""
    program = """\
from threading import Event, Thread
begins = Event()
def work():
    begins.set()
    call_when_awaited()
def again():
    k(x)  # <
thread = Thread(target=work)
thread.start()
begins.wait()
has_returned = await_with_lock(1, 10_000)
thread.join()
again()
assert has_returned
"""
    recording = recorded(program, {"await_with_lock": ctypes.PyDLL(stand_in.path).stand_in_await,
                                   "call_when_awaited": stand_in.library.stand_in_awaited_call})
    assert named_lines(folder, program) <= lines_of(recording, "activities")
    (row,) = health(recording)
    assert row["status"] == "ok" and "1 call of the driver without a line" in row["message"]


@pytest.mark.parametrize("stacks", [False, True])
def test_code_that_is_made_anew_again_and_again(recorded: Callable[..., Any], folder: Path, stacks: bool) -> None:
    program = "for _ in range(5000):\n    exec(compile('k(x)', '<string>', 'exec'))  # <"
    assert lines_of(recorded(program, stacks=stacks), "activities") == named_lines(folder, program)


@pytest.mark.parametrize("stacks", [False, True])
def test_many_threads_at_once(recorded: Callable[..., Any], folder: Path, stacks: bool) -> None:
    program = """\
from threading import Thread
def work():
    for _ in range(200):
        k(x)  # <
        graph()  # <
threads = [Thread(target=work) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()"""
    recording = recorded(program, stacks=stacks)
    assert lines_of(recording, "activities") == named_lines(folder, program)
    assert len(recording.activities) == 8 * 200 * 3


def test_recordings_one_after_the_other(recorded: Callable[..., Any], stand_in: StandIn, folder: Path) -> None:
    before = threading.active_count()
    for number in range(3):
        program = "\n" * number + "k(x)  # <"
        assert lines_of(recorded(program), "activities") == named_lines(folder, program)
    assert threading.active_count() == before
    theirs(stand_in, folder)["k"](3)  # nobody listens


def test_parts_of_a_recording(stand_in: StandIn, cupti: Cupti, folder: Path) -> None:
    """Each cell's recording has the lines of its own calls."""
    names, found = theirs(stand_in, folder), []
    with Recorder(probes=[CuptiProbe(cupti)]):
        for number in range(3):
            program = "\n" * number + "k(x)  # <"
            with Recorder(probes=[CuptiProbe(cupti)]) as inner:
                run_program(program_of(folder, program), names)
            found.append(lines_of(inner.recording, "activities") == named_lines(folder, program))
    assert found == [True] * 3


def test_a_journal_is_whole_with_them(stand_in: StandIn, cupti: Cupti, folder: Path, tmp_path: Path) -> None:
    names = theirs(stand_in, folder)
    with Recorder(probes=[CuptiProbe(cupti)], journal=tmp_path / "journals", stacks=True):
        run_program(program_of(folder, "k(x)"), names)
        shutil.copytree(tmp_path / "journals", tmp_path / "left")
    (left,) = kernelscope.journals(tmp_path / "left")
    recording = kernelscope.recover(left)
    assert "call" in [row["function"] for row in recording.rows("lines")]
    assert not [row for row in recording.rows("health") if "known" in (row["message"] or "")]


def test_without_lines(recorded: Callable[..., Any]) -> None:
    recording = recorded("k(x)", lines=False)
    assert lines_of(recording, "activities") == {("", 0)} and not len(recording.lines)


def test_threads_that_python_does_not_know(stand_in: StandIn, cupti: Cupti, folder: Path) -> None:
    """Work of a library's own thread is the line's whose it is said to be, and else nobody's."""
    assert cupti.call_sites is not None
    calls = cupti.call_sites
    with Recorder(probes=[CuptiProbe(cupti)]) as recorder:
        call, kernels = stand_in.library.stand_in_call_of_thread, []
        call.restype = ctypes.c_uint32
        for elsewhere in (-1, 0, -1):
            run_program(program_of(folder, "k(x)"), theirs(stand_in, folder))  # site 0
            calls.elsewhere = elsewhere
            kernels.append(call())
            stand_in.kernel(kernels[-1], "of a thread", now(), now() + 10)
    lines = recorder.recording.arrow("activities").filter(
        [name == "of a thread" for name in recorder.recording.arrow("activities").column("name").to_pylist()])
    assert lines.column("line_id").to_pylist() == [None, 0, None]


def test_code_that_was_made_by_a_library_on_a_thread_of_its_own(
        stand_in: StandIn, cupti: Cupti, folder: Path) -> None:
    """It is the line's whose work the thread does, and only else its own: torch generates launchers, for one."""
    assert cupti.call_sites is not None
    names = theirs(stand_in, folder)
    exec(compile("def work():\n    k(x)", "<string>", "exec"), names)
    with Recorder(probes=[CuptiProbe(cupti)]) as recorder:
        for elsewhere in (-1, 0):
            run_program(program_of(folder, "k(x)"), names)  # site 0
            cupti.call_sites.elsewhere = elsewhere
            thread = threading.Thread(target=names["work"])
            thread.start()
            thread.join()
        cupti.call_sites.elsewhere = -1
    files = recorder.recording.lines.file[recorder.recording.activities.line_id]
    assert [file == "<string>" for file in files] == [False, True, False, False]


def test_whose_backward_pass_it_is() -> None:
    """Passes within passes, of threads that have no line, are the outer one's; two lines at a time are nobody's."""
    told: list[int] = []
    line = [7]
    watch = BackwardWatch(lambda: line[0], told.append)
    engine = watch._made(lambda inner=None: inner and inner())

    def checkpoint() -> None:
        line[0] = -1
        engine()
        line[0] = 8
        engine()
        line[0] = 7

    engine(checkpoint)
    assert told == [7, 7, 7, -1, 7, -1]
    with pytest.raises(ZeroDivisionError):
        engine(lambda: 1 / 0)
    assert told[-2:] == [7, -1]


def test_what_goes_wrong_for_us_is_said_and_the_call_goes_on(
        recorded: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> int:
        raise RuntimeError("ours")

    monkeypatch.setattr(Sink, "site_of_call", broken)
    recording = recorded("k(x)")
    assert lines_of(recording, "activities") == {("", 0)}
    assert any(row["errors"] and "ours" in row["message"] for row in health(recording))


def test_a_call_that_is_made_while_a_line_is_looked_up(
        stand_in: StandIn, cupti: Cupti, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python runs meanwhile, and what it lets go of may call the driver: both are recorded, each with its times."""
    site_of_call = Sink.site_of_call
    asked: list[Any] = []

    def releasing(*about: Any) -> int:
        asked.append(about)
        if len(asked) == 1:
            stand_in.call("cuMemAlloc_v2", now(), now() + 10)
        return site_of_call(*about)

    monkeypatch.setattr(Sink, "site_of_call", releasing)
    with Recorder(probes=[CuptiProbe(cupti)]) as recorder:
        run_program(program_of(folder, "k(x)  # <"), theirs(stand_in, folder, ctypes.PyDLL(stand_in.path)))
    assert lines_of(recorder.recording, "activities") == named_lines(folder, "k(x)  # <")
    assert [row["name"] for row in recorder.recording.rows("api_calls")] == ["cuMemAlloc_v2"]
    (launch,) = recorder.recording.rows("activities")
    assert launch["submit_end_ns"] - launch["submit_start_ns"] == 1_000
