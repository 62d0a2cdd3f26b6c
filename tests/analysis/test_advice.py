"""Advice: what each rule says, and from when on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_stories import GraphScript, rebuilt, with_builds
from handmade import MS, US, Script

from kernelscope.analysis.advice import (
    RULES,
    find_churn,
    first_of,
    graph_kernels,
    longest_rounds,
    repetition,
    rules,
)
from kernelscope.analysis.builds import explain_builds
from kernelscope.views.card.model import Overview


def _advice(made: Script) -> dict[str, str]:
    return {each.code: each.text for each in Overview(explain_builds(made.recording())).advice}


def _launched(launches: int, wall_ns: int = 100 * MS, phases: tuple[int, ...] = (3_000, 0, 4_000, 2_000, 1_000),
              grid: tuple[int, ...] = (400,), block: tuple[int, ...] = (128,)) -> Script:
    made = Script()
    made.device(multiprocessors=132)
    made.cell(wall_ns=wall_ns)
    made.kernel("axpy")
    made.specialization()
    made.configuration(grid, block)
    for _ in range(launches):
        made.launch(phases=phases)
    return made


def _compiled(*signatures: str, duration_ns: int = 50 * MS, **row: Any) -> Script:
    made = _launched(1)
    made.rows["dispatchers"][0]["arguments"] = "x, n"
    for signature in signatures:
        made.compilation(0, duration_ns, signature=signature, **row)
    return made


def _arrays(*types: str, duration_ns: int = 50 * MS) -> Script:
    return _compiled(*(f"(array({each}),)" for each in types), duration_ns=duration_ns)


def _numbers(*dtypes: str) -> Script:
    return _compiled(*(f"(array(float32, 1d, C), {dtype})" for dtype in dtypes))


def _defined(times: int, cells: int = 1, **row: Any) -> Script:
    """A kernel that is defined several times, in turn in so many cells, and compiled each time."""
    made = Script()
    for _ in range(cells):
        made.cell()
    for at in range(times):
        made.compilation(made.kernel("again", **({"code_sha256": "a"} | row)), 40 * MS, cell_id=at % cells)
    return made


def _changed(made: Script, table: str, row: int, **values: Any) -> Script:
    made.rows[table][row] |= values
    return made


def _bound(execute_ns: int, launches: int = 600) -> Script:
    """Launches of 10 µs every 15 µs, whose kernels take so long."""
    made = _launched(launches, launches * 15_000)
    for launch, row in enumerate(made.rows["launches"]):
        made.activity(launch_id=launch, start_ns=row["submit_end_ns"], duration_ns=execute_ns)
    return made


def _copying(made: Script, late_ns: int = 0, **activity: Any) -> Script:
    """Add a copy of 1 MiB in each launch, or so much later."""
    made.metadata["gpu"] = {"source": "cupti"}
    for row in made.rows["launches"]:
        at = row["start_ns"] + 10_000 + late_ns
        made.activity("memcpy", "HtoD", 5_000, start_ns=at + 1_000, submit_start_ns=at, submit_end_ns=at + 9_000,
                      size_bytes=1 << 20, **activity)
    return made


def _pageable(memory: str = "pageable to device") -> Script:
    made = _launched(1)
    made.activity("memcpy", "HtoD", 6 * MS, start_ns=made.rows["cells"][0]["start_ns"], size_bytes=1 << 20,
                  memory=memory)
    made.activity("memcpy", "HtoD", 40 * MS, size_bytes=8 << 20, memory="pinned to device")
    return made


def _waiting(kernels: int = 4, rounds: int = 500) -> Script:
    """2,000 launches of 54 µs in 500 rounds, of which 24 wait in prepare, one of them for 34.7 ms."""
    made = Script()
    made.cell(wall_ns=311 * MS, execution_count=3)
    for at in range(kernels):
        made.kernel(f"k{at}")
        made.specialization(at)
    made.configuration((400,))
    waits = {round(at * rounds / 24): 34_646_000 if at == 7 else 5_700_000 for at in range(24)}
    for turn in range(rounds):
        for at in range(kernels):
            wait = waits.get(turn, 0) if at == 0 else 0
            made.launch(at, (20_000, 0, 4_000 + wait, 20_000, 10_000), at)
    return made


def _one_waited(made: Script) -> Script:
    """Let one launch, with the launches after it and so with idle time, wait before its driver call."""
    for name in ("submit_start_ns", "submit_end_ns", "end_ns"):
        made.rows["launches"][300][name] += 300_000
    return made


def _one_long(made: Script) -> Script:
    made.launch(phases=(3_000, 0, 34_700_000, 6_000, 1_000))
    return made


def _loop(wall_ns: int = 2 * MS, rounds: int = 30, kernels: int = 3, **launch: Any) -> Script:
    made = Script(gpu=launch.pop("gpu", None))
    made.cell(wall_ns=wall_ns)
    for at in range(kernels):
        made.kernel(f"k{at}")
        made.specialization(at)
    made.configuration((400,))
    for _ in range(rounds):
        for at in range(kernels):
            made.launch(at, specialization=at, **launch)
    return made


def _each_another_configuration(made: Script) -> Script:
    for row in made.rows["launches"]:
        row["configuration_id"] = made.configuration()
    return made


def _closed(*durations: int, launches: int = 1) -> GraphScript:
    """Executable graphs that took so long to instantiate, and were launched so often and closed."""
    made = GraphScript()
    for lasted in durations:
        executable = made.instantiate(duration_ns=lasted, source_event_id=made.capture())
        for _ in range(launches):
            made.replay(executable)
        made.close(executable)
    return made


def _kept() -> GraphScript:
    """Two executable graphs of one topology that are launched in turn."""
    made = GraphScript()
    first = made.instantiate()
    second = made.instantiate(1, rebuild_of=first, change="configuration")
    for _ in range(4):
        made.replay(first)
        made.replay(second, 1)
    for executable in (first, second):
        made.close(executable)
    return made


def _refused(*times_us: int) -> GraphScript:
    made = GraphScript()
    executable = made.instantiate()
    for took in times_us:
        made.graph_event("update", 0, took * US, exec_id=executable, outcome="refused", error="nodes were added")
    return made


def _fifty_times() -> GraphScript:
    made = GraphScript()
    made.cell(execution_count=6)
    before = made.instantiate(cell_id=1)
    for _ in range(49):
        made.graph_event("launch", 0, exec_id=before, cell_id=1)
        before = made.instantiate(cell_id=1, rebuild_of=before, change="none")
    return made


def _graph_kernel(because: str | None, launches: int = 4, **launch: Any) -> Script:
    """Launches of a graph kernel of Quadrants, without a graph launch."""
    made = Script()
    made.cell()
    made.kernel("step", framework="quadrants", options='{"graph": true}')
    held = {"graph": True, "do_while": [{"while": "count", "inside": None}], "plain_because": because}
    made.specialization(0, attributes=json.dumps(held))
    made.configuration()
    for _ in range(launches):
        made.launch(**launch)
    return made


def _builds() -> Script:
    made = Script()
    made.cell()
    return with_builds(made)


def _tuned(runs: int, fast: float | None = None, outcome: str = "compiled", **attributes: Any) -> Script:
    """A kernel that is tuned `runs` times, for other values of `n`; the fastest is one time this and one time that."""
    made = Script()
    made.cell(10_000 * MS)
    made.launchable(framework="triton")
    for at in range(runs):
        run = made.tuning({"n": str(at)}, (0.3, fast or (0.1, 0.5)[at % 2]), **attributes)
        made.compilation(launch_id=made.launch(build_id=run), outcome=outcome)
    return made


# By rule: a recording of which it says the line. A line that ends in "..." is the beginning of what it says.
SAID: list[tuple[str, Callable[[], Script], str]] = [
    ("argument_types", lambda: _numbers("int64", "int32", "int8", "float64", "float32"),
     "argument `n` of axpy took 5 types while all others stayed as they were (int64, int32, int8, float64 and 1 more): "
     "5 compiles, 250 ms in all. Pass it as one type."),
    ("argument_types", lambda: _changed(_numbers("int64", "int32", "int8", "int16"), "dispatchers", 0, arguments=None),
     "argument 1 of axpy took 4 types..."),
    ("recreated", lambda: _defined(3),
     "again was defined again with the same code, and compiled again for the same types: 3 compiles, 120 ms in all. "
     "Define it once: keep the definition out of the loop or function that runs again, and pass what it captures as "
     "arguments."),
    ("recreated", lambda: _defined(4, cells=4),
     "again was defined again with the same code, in 4 runs of cells, and compiled again for the same types: 4 "
     "compiles, 160 ms in all. Define it once: keep it out of the cell that is run again, and..."),
    ("recreated", lambda: _defined(2, attributes='{"owner": "ufunc"}'),
     "again was defined again with the same code, and compiled again for the same types: 2 compiles, 80.0 ms in all. "
     "Define it once: keep the definition out of the loop or function that runs again."),
    ("recreated", lambda: _defined(2, module="numba.cuda.kernels.transpose", attributes='{"owner": "library"}'),
     "again of numba.cuda.kernels.transpose was defined again with the same code, and compiled again for the same "
     "types: 2 compiles, 80.0 ms in all. It is the library's own kernel: transpose on the host, or keep what .T of a "
     "device array returns."),
    ("same_code", lambda: _changed(_defined(2), "dispatchers", 1, name="copy"),
     "again, copy have the same code, each compiled for the same types: 2 compiles, 80.0 ms in all. One definition "
     "that all launches use would need fewer."),
    ("same_code", lambda: _changed(_defined(2), "dispatchers", 1, options='{"fastmath": true}'),
     "again has the same code in 2 dispatchers with different options, each compiled..."),
    ("repeated_layouts", lambda: _arrays("float32, 2d, C", "float32, 2d, F", "float32, 2d, A"),
     "axpy was compiled 2 more times for other memory layouts, 100 ms in all: pass arrays of one layout."),
    ("repeated_dtypes", lambda: _arrays("float32, 1d, C", "float64, 1d, C", "int8, 1d, C"),
     "axpy was compiled 2 more times for other dtypes, 100 ms in all: cast its arguments to one dtype before the "
     "launch."),
    ("repeated_scalars", lambda: _compiled("(int64,)", "(int32,)", "(int8,)"),
     "axpy was compiled 2 more times for other types of numbers, 100 ms in all: pass numbers of one type, such as "
     "int(value)."),
    ("repeated_tuples", lambda: _compiled(*(f"(UniTuple(int64 x {count}),)" for count in (1, 2, 3))),
     "axpy was compiled 2 more times for other numbers of elements in a tuple, 100 ms in all: pass an array, which "
     "takes any number."),
    ("changed_argument", lambda: _arrays("float32, 1d, C", "float64, 1d, C"),
     "axpy was compiled 1 more time for changed arguments, 50.0 ms: x float32 → float64. Pass argument `x` as "
     "array.astype(np.float32) in every launch, if the values allow it; convert a device array on the host, before it "
     "goes to the device."),
    ("changed_argument", lambda: _arrays("float32, 1d, C", "float64, 1d, C", "float32, 2d, C"),
     "axpy was compiled 2 more times for changed arguments, 100 ms in all; the longest, 50.0 ms: x float32 → float64. "
     "Pass argument `x` as..."),
    ("launch_configurations", lambda: _sensitive(4),
     "axpy was compiled 3 more times for other launch configurations (it is launch-config sensitive), 150 ms in all: "
     "use fewer distinct grids, blocks and shared-memory sizes."),
    ("no_disk_cache", lambda: _compiled("(int64,)", duration_ns=150 * MS),
     "1 compile took 150 ms without a disk cache: cache=True in @cuda.jit would spare the next session those of axpy."),
    ("no_disk_cache", lambda: _two_frameworks(),
     "2 compiles took 400 ms without a disk cache: qd.init(offline_cache=True) would spare the next session those of "
     "step; cache=True in @cuda.jit would spare the next session those of axpy."),
    ("launch_bound", lambda: _bound(2_000),
     "the GPU was busy for 13 % of the time, and idle mostly while the host made launches (69 % of the idle time). A "
     "launch of axpy takes 10.0 µs on the host (600 took 6.00 ms), its kernel 2.00 µs on the GPU. Launch less often "
     "with more work, or as a CUDA graph."),
    ("many_launches", lambda: _launched(600, 8 * MS),
     "600 launches of axpy took 6.00 ms on the host (75 % of the wall time), 10.0 µs each. Launch less often with more "
     "work, or as a CUDA graph."),
    ("many_launches", lambda: _waiting(kernels=1, rounds=2_000),
     "1,976 launches of k0 took 107 ms on the host (34 % of the wall time), 54.0 µs each, 24 longer ones of 167 ms in "
     "all apart. Launch less often with more work, or as a CUDA graph."),
    ("launch_bound", lambda: _one_waited(_bound(2_000)),
     "the GPU was busy for 13 % of the time, and idle mostly while the host made launches (70 % of the idle time). A "
     "launch of axpy takes 10.0 µs on the host (599 took 5.99 ms, 1 longer one of 310 µs in all apart), its kernel "
     "2.00 µs on the GPU..."),
    ("slow_prepare", lambda: _one_long(_launched(30, phases=(3_000, 0, 90_000, 6_000, 1_000))),
     "30 launches of axpy spent 2.70 ms of 3.00 ms (90 %) in prepare..."),
    ("long_launches", lambda: _waiting(),
     "24 of 500 launches of k0 took 167 ms of its 193 ms on the host (87 %); the longest took 34.7 ms, 34.6 ms of it "
     "in prepare, where host arrays are copied in, and a first launch loads its module. The timeline shows when. Fewer "
     "launches or a CUDA graph may not help here."),
    ("slow_prepare", lambda: _launched(3, phases=(3_000, 0, 90_000, 6_000, 1_000)),
     "3 launches of axpy spent 270 µs of 300 µs (90 %) in prepare, where host arrays are copied: if it takes any, pass "
     "device arrays (cuda.to_device)."),
    ("slow_prepare", lambda: _copying(_launched(3, phases=(3_000, 0, 90_000, 6_000, 1_000))),
     "3 launches of axpy spent 270 µs of 300 µs (90 %) in prepare, where host arrays are copied (3.0 MiB in and out): "
     "pass device arrays (cuda.to_device)."),
    ("slow_prepare", lambda: _changed(_launched(3, phases=(3_000, 0, 55_000, 6_000, 56_000)), "dispatchers", 0,
                                      framework="quadrants"),
     "3 launches of axpy spent 165 µs of 360 µs (46 %) in prepare, where host arrays are copied: if it takes any, pass "
     "device arrays (qd.ndarray)."),
    ("pageable_copies", _pageable,
     "1 HtoD copy from or to pageable memory took 6.00 ms (1.0 MiB); the driver copies such memory once more on the "
     "host: keep these arrays in pinned memory (cuda.pinned_array), or on the device."),
    ("few_blocks", lambda: _launched(600, 800 * MS, grid=(1,), block=(32,)),
     "all 600 launches of axpy have 1 block at most, on a GPU with 132 multiprocessors: the others are idle unless "
     "launches overlap."),
    ("partial_warps", lambda: _launched(2, block=(100,)),
     "2 launches of axpy had blocks that are no multiple of a warp's 32 threads: in the largest, of 100 threads, 28 of "
     "the last warp's lanes idle."),
    ("rebuilt_graph", rebuilt,
     "this cell instantiated one topology (graph 0, 4 nodes) 7 times, 2.81 ms in all; 6 of them, 2.42 ms, replaced an "
     "executable graph: 4 times nothing had changed, so reuse the executable graph; 2 times arguments had changed "
     "(argument 1 of axpy), so update it (1 update here took 90.0 µs)."),
    ("rebuilt_graph", _fifty_times,
     "In [6] instantiated one topology (graph 0, 4 nodes) 50 times, 20.0 ms in all; 49 of them, 19.6 ms, replaced an "
     "executable graph: 49 times nothing had changed..."),
    ("graph_launched_once", lambda: _closed(400 * US),
     "graph 0 (4 nodes) was instantiated, launched once and closed: instantiating took 400 µs, a capture 120 µs, a "
     "launch 8.00 µs on the host, 43.0 µs on the GPU. A graph saves time only where it is launched again."),
    ("graph_launched_once", lambda: _closed(400 * US, 800 * US),
     "graph 0 (4 nodes) was 2 times instantiated, launched once and closed: instantiating took 1.20 ms in all; on "
     "average a capture 120 µs, a launch 8.00 µs on the host, 43.0 µs on the GPU..."),
    ("unlaunched_graph", lambda: _closed(400 * US, launches=0),
     "graph 0 (4 nodes) was instantiated once and closed without a launch, 400 µs in all: instantiate it where it is "
     "needed."),
    ("refused_updates", lambda: _refused(10, 20, 600),
     "3 updates of graph 0 were refused by the driver, 630 µs in all: an update can change arguments, launch "
     "configurations and sizes. Where nodes or edges change, instantiate without trying."),
    ("operator_names", _builds,
     "reduce_into was built 1 more time for an operator's name alone, 1.80 s in all: cuda.compute keeps what it built "
     "by the operator's name too. Define the operator once, under one name."),
    ("autotune_key", lambda: _tuned(4, 0.1),
     "axpy was autotuned 3 more times for new values of `n` (1, 2, 3), 1.20 s in all. It chose BLOCK=32 num_warps=4 "
     "each time: leave `n` out of key=[...]."),
    ("autotune_key", lambda: _tuned(4),
     "axpy was autotuned 3 more times for new values of `n` (1, 2, 3), 1.20 s in all. Leave `n` out of key=[...] "
     "where one configuration does for all values; or name an argument of its own there, such as "
     "triton.next_power_of_2(n), which changes less often."),
    ("autotune_results", lambda: _tuned(1, outcome="disk"),
     "axpy was autotuned in 400 ms, and had been before: all configurations were in Triton's disk cache. "
     "triton.autotune(..., cache_results=True) keeps the results on disk, so that they are not measured again."),
    ("repeated_sequence", _loop,
     "the same 3 launches (k0, k1, k2) were made 30 times in a row: a round takes 30.0 µs on the host, all of them 900 "
     "µs (45 % of the wall time). Captured into a CUDA graph, a round is one launch. %kernelscope whatif graph "
     "measures what that would save."),
    ("repeated_sequence", lambda: _waiting(),
     "the same 4 launches (k0, k1, k2 and 1 more) were made 500 times in a row: a round takes 216 µs on the host, all "
     "of them 103 ms (33 % of the wall time), besides 24 longer ones of 171 ms in all, which waited for something "
     "else. Captured into a CUDA graph, a round is one launch. %kernelscope whatif graph 3 measures what that would "
     "save."),
    ("repeated_sequence", lambda: _changed(_loop(), "dispatchers", 1, framework="cuda.core"),  # cannot be made again
     "the same 3 launches (k0, k1, k2) were made 30 times in a row: a round takes 30.0 µs on the host, all of them 900 "
     "µs (45 % of the wall time). Captured into a CUDA graph, a round is one launch."),
    ("graph_fell_back", lambda: _graph_kernel("the backend x64 makes no graphs"),
     "4 of 4 launches of step, a graph kernel, fell back to plain launches, 40.0 µs in all: the backend x64 makes no "
     "graphs. Its 1 qd.graph.do_while loop went through the host, which waits for the flag after each turn."),
]

# By rule: a recording of which it says nothing.
SILENT: list[tuple[str, Callable[[], Script]]] = [
    ("argument_types", lambda: _numbers("int64", "int32", "int8")),
    ("repeated_scalars", lambda: _compiled("(int64,)", "(int32,)", "(int8,)", "(float32,)")),  # argument_types says it
    ("changed_argument", lambda: _arrays("float32, 1d, C", "float64, 1d, C", duration_ns=9 * MS)),
    ("changed_argument", lambda: _arrays("float32, 1d, C", "float64, 1d, C", "int8, 1d, C")),  # repeated_dtypes says it
    ("recreated", lambda: _defined(1)),
    ("recreated", lambda: _changed(_defined(2), "compilations", 1, signature="(int64,)")),
    ("recreated", lambda: _changed(_defined(2), "dispatchers", 1, code_sha256="b")),
    ("recreated", lambda: _changed(_defined(2), "compilations", 1, outcome="disk")),
    ("same_code", lambda: _changed(_defined(2, attributes='{"owner": "library"}'), "dispatchers", 1, name="copy")),
    ("no_disk_cache", lambda: _compiled("(int64,)", duration_ns=150 * MS, cache_file="x.nbi")),
    ("no_disk_cache", lambda: _compiled("(int64,)", duration_ns=10 * MS)),
    ("launch_bound", lambda: _bound(9_000)),
    ("launch_bound", lambda: _bound(2_000, 100)),
    ("many_launches", lambda: _bound(2_000)),  # launch_bound says it
    ("many_launches", lambda: _launched(600, 80 * MS)),
    ("slow_prepare", lambda: _launched(3, phases=(73_000, 0, 55_000, 6_000, 1_000))),
    ("slow_prepare", lambda: _copying(_launched(3, phases=(3_000, 0, 90_000, 6_000, 1_000)), late_ns=1_000_000)),
    ("slow_prepare", lambda: _copying(_launched(3, phases=(3_000, 0, 90_000, 6_000, 1_000)), thread_id=1)),
    ("pageable_copies", lambda: _pageable("pinned to device")),
    ("few_blocks", lambda: _changed(_launched(600, 800 * MS, grid=(1,), block=(32,)), "devices", 0,
                                    multiprocessors=None)),
    ("rebuilt_graph", _kept),
    ("graph_launched_once", _kept),
    ("graph_launched_once", rebuilt),  # rebuilt_graph says more
    ("autotune_key", lambda: _tuned(3)),
    ("autotune_results", lambda: _tuned(1)),
    ("autotune_results", lambda: _tuned(1, outcome="disk", cache_results=True)),
    ("autotune_results", lambda: _tuned(1, outcome="disk", has_pre_hook=True)),
    ("repeated_sequence", lambda: _loop(20 * MS)),
    ("repeated_sequence", lambda: _loop(rounds=19)),
    ("repeated_sequence", lambda: _loop(rounds=100, kernels=1)),
    ("repeated_sequence", lambda: _loop(capture_event_id=0)),
    ("repeated_sequence", lambda: _loop(phases=None, end_ns=None)),
    ("repeated_sequence", lambda: _each_another_configuration(_loop())),
    ("graph_fell_back", lambda: _graph_kernel(None)),  # graphs were not watched
    ("graph_fell_back", lambda: _graph_kernel("the backend x64 makes no graphs", error="RuntimeError")),
]


def _sensitive(count: int) -> Script:
    made = _launched(1)
    for at in range(count):
        made.configuration((at + 7,))
        made.compilation(0, 50 * MS, configuration_id=at, launch_config_sensitive=True)
    return made


def _two_frameworks() -> Script:
    made = _compiled("(int64,)", duration_ns=150 * MS)
    made.compilation(made.kernel("step", framework="quadrants"), 250 * MS)
    return made


@pytest.mark.parametrize(("code", "make", "text"), SAID)
def test_what_a_rule_says(code: str, make: Callable[[], Script], text: str) -> None:
    found = _advice(make())[code]
    assert found == text or (text.endswith("...") and found.startswith(text[:-3])), found


@pytest.mark.parametrize(("code", "make"), SILENT)
def test_when_a_rule_is_silent(code: str, make: Callable[[], Script]) -> None:
    assert code not in _advice(make())


def test_every_rule_is_documented_and_tested() -> None:
    # Those of features are tested with them.
    assert {code for code, _, _ in SAID} == set(RULES)
    assert set(RULES) < set(rules())
    assert all(each.title and each.when and each.effect for each in rules().values())
    assert all(code in rules() for each in rules().values() for code in each.unless)


@pytest.mark.parametrize("make", [Script, lambda: _launched(20)])
def test_a_quiet_cell_gets_no_advice(make: Callable[[], Script]) -> None:
    assert _advice(make()) == {}


def test_one_line_a_rule_names_the_other_kernels() -> None:
    made = _launched(2, block=(100,))
    for name in ("b", "c", "n" * 200):
        made.launch(made.kernel(name))
    text = _advice(made)["partial_warps"]
    assert text.endswith(f" The same goes for b, c, {'n' * 20}…{'n' * 20}.")


def test_the_gpu_that_idles_outside_of_launches_waits_for_something_else() -> None:
    made = _bound(2_000)
    made.rows["cells"][0]["end_ns"] *= 10
    assert "launch_bound" not in _advice(made)
    waited = _bound(2_000)
    waited.rows["launches"][300]["end_ns"] += 20 * MS
    assert "launch_bound" not in _advice(waited), "the GPU idled while one launch waited"


def test_a_kernel_that_the_gpu_waits_for_does_not_silence_the_others() -> None:
    """Two kernels of one name: one that the GPU waits for, and one whose runs on the GPU were not recorded."""
    made = _launched(0, 24 * MS)
    other = made.kernel("axpy", lineno=70)
    made.specialization(other)
    for at in range(1_200):
        phases = (8_000, 0, 9_000, 2_000, 1_000) if at % 2 else (3_000, 0, 4_000, 2_000, 1_000)
        launch = made.launch(other if at % 2 else 0, phases, at % 2)
        if not at % 2:
            made.activity(launch_id=launch, start_ns=made.rows["launches"][launch]["submit_end_ns"], duration_ns=500)
    told = _advice(made)
    assert "A launch of axpy takes 10.0 µs on the host" in told["launch_bound"]
    assert "600 launches of axpy took 12.0 ms on the host" in told["many_launches"]
    assert "The same goes" not in told["launch_bound"]


def test_every_kernel_that_the_gpu_waits_for_is_named() -> None:
    made = _launched(0, 18 * MS)
    other = made.kernel("scale")
    made.specialization(other)
    for at in range(1_200):
        launch = made.launch(other if at % 2 else 0, specialization=at % 2)
        made.activity(launch_id=launch, start_ns=made.rows["launches"][launch]["submit_end_ns"], duration_ns=500)
    told = _advice(made)
    assert told["launch_bound"].endswith(" The same goes for scale.")
    assert "many_launches" not in told


def test_a_changed_argument_comes_before_the_cache_of_the_next_session() -> None:
    made = _compiled(duration_ns=900 * MS)
    made.compilation(0, 900 * MS, signature="(array(float32, 1d, C),)")
    made.compilation(0, 120 * MS, signature="(array(float64, 1d, C),)")
    first, second = Overview(made.recording()).advice
    assert (first.code, second.code) == ("changed_argument", "no_disk_cache")
    assert second.saves_ns > first.saves_ns


@pytest.mark.parametrize("make", [
    lambda: _launched(600, 800 * MS, grid=(1,), block=(32,)), lambda: _launched(2, block=(100,)),
    lambda: _launched(3, phases=(3_000, 0, 90_000, 6_000, 1_000)),
    lambda: _graph_kernel("the backend x64 makes no graphs"),
])
def test_what_may_not_help_is_never_first(make: Callable[[], Script]) -> None:
    found = Overview(make().recording()).advice
    assert found
    assert first_of(found) is None


def test_what_is_certain_comes_before_a_larger_hint() -> None:
    made = _waiting()
    made.compilation(0, 12 * MS, signature="(int64,)")
    made.compilation(0, 12 * MS, signature="(array(float32, 1d, C),)")
    made.rows["cells"][0]["end_ns"] = made.rows["cells"][0]["start_ns"] + 450 * MS
    found = [each.code for each in Overview(made.recording()).advice]
    assert found == ["changed_argument", "long_launches"]


def test_the_loop_s_cell_is_named() -> None:
    made = _loop()
    made.cell(1 * MS, name="warm-up")
    made.cell(1 * MS, execution_count=7, name="train")
    made.rows["cells"][0]["end_ns"] -= 1_900 * US
    for row in made.rows["launches"]:
        row["cell_id"] = 1
    assert "%kernelscope whatif graph warm-up measures" in _advice(made)["repeated_sequence"]
    made.rows["launches"][-1]["cell_id"] = 2
    assert "were made 29 times" in _advice(made)["repeated_sequence"], "a loop ends with its cell"
    for row in made.rows["launches"]:
        row["cell_id"] = 2
    assert "%kernelscope whatif graph 7 measures" in _advice(made)["repeated_sequence"]


def test_a_busy_gpu_gains_nothing_from_a_graph() -> None:
    made = _loop(gpu={"source": "cupti"})
    made.device()
    made.activity(start_ns=made.rows["cells"][0]["start_ns"], duration_ns=1_900 * US)
    assert "repeated_sequence" not in _advice(made)


def test_a_graph_that_may_still_be_launched_gets_no_advice() -> None:
    made = GraphScript()
    made.replay(made.instantiate(source_event_id=made.capture()))
    assert _advice(made) == {}


def test_a_cell_that_only_waits_is_advised_no_graph() -> None:
    made = _waiting()
    made.rows["cells"][0]["end_ns"] = made.rows["cells"][0]["start_ns"] + 450 * MS
    assert sorted(_advice(made)) == ["long_launches"]
    alone = _waiting(kernels=1, rounds=2_000)
    alone.rows["cells"][0]["end_ns"] = alone.rows["cells"][0]["start_ns"] + 500 * MS
    assert sorted(_advice(alone)) == ["long_launches"]
    for row in alone.rows["launches"]:
        row |= {"dispatch_end_ns": None, "submit_start_ns": None, "submit_end_ns": None, "compile_ns": None}
    assert _advice(alone) == {}, "why they took long is not known"


def test_the_parts_of_a_long_launch_add_up() -> None:
    found = Overview(_waiting().recording())
    told = {each.code: each for each in found.advice}
    long = found.by_kernel[0].long
    assert long is not None
    assert (long.launches, long.longest_ns, long.phase, long.phase_ns) == (24, 34_700_000, "prepare", 34_650_000)
    assert told["long_launches"].saves_ns == long.totals.host_ns
    assert not told["long_launches"].is_certain
    # At best a graph spares the long launches too, and the 5 µs between the launches of a round.
    assert told["repeated_sequence"].saves_ns == 500 * (216_000 + 3 * 5_000) + 34_646_000 + 23 * 5_700_000
    assert found.host_share == pytest.approx(0.88, abs=0.005)


def test_types_from_before_and_from_the_disk_count_but_take_no_time() -> None:
    made = _numbers("int64")
    made.rows["compilations"][0]["attributes"] = json.dumps({"known_signatures": ["(array(float32, 1d, C), int8)"]})
    for dtype, origin in (("int32", "before"), ("int16", "disk")):
        made.specialization(0, f"(array(float32, 1d, C), {dtype})", origin=origin)
    found, = find_churn(made.recording())
    assert (found.code, found.argument, len(found.types), found.compiles, found.spent_ns) == (
        "argument_types", "n", 4, 1, 50 * MS)
    made.compilation(0, 7 * MS, signature="(array(float32, 1d, C), int64)", trigger="specialize")
    made.compilation(0, 7 * MS, signature="(array(int8, 1d, C), uint8)")
    assert find_churn(made.recording()) == [found], "what has a dispatcher of its own, or differs elsewhere too"
    del made.rows["compilations"]
    assert find_churn(made.recording()) == []


@pytest.mark.parametrize("code", ["a", None])
def test_a_kernel_that_is_defined_again_and_again(code: str | None) -> None:
    made = _defined(3, code_sha256=code)
    made.compilation(0, 40 * MS, attributes='{"another_dispatcher": true}')  # a function that is jitted twice
    found, = find_churn(made.recording())
    assert (found.code, found.dispatchers, found.compiles, found.spent_ns, found.cells) == (
        "recreated", (0, 1, 2), 4, 160 * MS, 1)


@pytest.mark.parametrize(("keys", "found"), [
    ([], (0, 0, 0)), ([1], (0, 0, 0)), ([1, 2, 3], (0, 0, 0)), ([7] * 5, (0, 1, 5)),
    ([1, 2] * 4, (0, 2, 4)), ([9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 5], (1, 3, 3)), ([1, 2, 1, 2, 1], (0, 2, 2)),
    ([1, 1, 2, 1, 1, 2, 1, 1, 2], (0, 3, 3)),
])
def test_rounds(keys: list[int], found: tuple[int, int, int]) -> None:
    assert longest_rounds(np.array(keys, dtype=np.int64)) == found


def test_threads_are_looked_at_one_by_one_and_rounds_that_waited_are_summed_by_themselves() -> None:
    made = _loop(rounds=60)
    for at, row in enumerate(made.rows["launches"]):
        row["thread_id"] = at % 2
        row["compile_ns"] = 500 if at < 2 else 0
        row["end_ns"] += 7_000_000 if at in (40, 41) else 0
    found = repetition(made.recording())
    assert found is not None
    assert (found.dispatchers, found.rounds, found.cell_id) == ((0, 2, 1), 30, 0)
    assert (found.usual_rounds, found.usual_ns, found.long_ns) == (29, 29 * 30_000 - 500, 7_030_000)


def test_rounds_in_which_a_launch_waited_for_most_of_the_time_are_no_usual_rounds() -> None:
    made = _loop(wall_ns=60 * MS, rounds=100, kernels=20)
    for at, row in enumerate(made.rows["launches"]):
        if at % 60 == 2:  # one of 20 launches of 10 µs in every third round: the round takes less than 5 times as long
            row["end_ns"] += 700 * US
    found = repetition(made.recording())
    assert found is not None
    assert (found.rounds, found.usual_rounds, found.usual_ns, found.long_ns) == (
        100, 66, 66 * 200 * US, 34 * 900 * US)
    assert "repeated_sequence" not in _advice(made), "those that a graph would spare are 22 % of the wall time"


def test_multiprocessors_that_idle_cost_time_of_the_gpu_and_none_of_the_host() -> None:
    made = _bound(2_000)
    made.rows["configurations"][0]["griddim_x"] = 4
    told = {each.code: each for each in Overview(made.recording()).advice}
    few = told["few_blocks"]
    assert (few.saves_ns, few.saves_of, few.is_certain) == (600 * 2 * US, "GPU time", False)


def test_launches_of_a_graph_kernel_are_told_apart() -> None:
    made = _graph_kernel("the backend x64 makes no graphs", launches=2)
    made.launch(made.kernel("plain", framework="quadrants"))
    made.specialization(0, attributes='{"graph": true}')
    made.graph_event("instantiate", None)
    for thread in (0, 0, 0, 1):  # a graph launch of another thread is not its own
        now = made.now
        made.graph_event("launch", None, 1_000, start_ns=now + 8_000, exec_id=0, thread_id=thread)
        made.now = now
        made.launch(specialization=1, thread_id=0)
    found, = graph_kernels(made.recording())
    assert (found.name, found.launches, found.replayed, found.plain, found.loops) == ("step", 6, 3, 2, 1)
    assert (found.plain_ns, found.because) == (20_000, ("the backend x64 makes no graphs",))
