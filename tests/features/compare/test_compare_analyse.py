"""Two recordings beside each other: what is matched, counted and judged."""

from __future__ import annotations

import numpy as np
import pytest
from counting import lines_run
from handmade import MS, Script
from two_runs import run

from kernelscope.features.compare.analyse import CONDITIONS, MEASURES, Changes, is_same_process
from kernelscope.intervals import FASTER, NO_DIFFERENCE, SLOWER
from kernelscope.recording.model import Recording


def rows(changes: Changes, section: str) -> dict[str, tuple[str, object, object]]:
    """By name and detail, status and numbers of what changed."""
    found = changes.section(section)
    return {} if found is None else {f"{row.name} {row.detail}".strip(): (row.status, row.before, row.after)
                                     for row in found.changed}


# What repeats.

@pytest.mark.parametrize("pids", [(10, 10), (10, 11)], ids=["one process", "two processes"])
def test_equal_runs_show_no_difference(pids: tuple[int, int]) -> None:
    offset = 0.02 if pids[0] == pids[1] else 0.05
    changes = [Changes(run(2 * at, pid=pids[0], offset=offset), run(2 * at + 1, pid=pids[1], offset=offset))
               for at in range(40)]
    assert sum(bool(each.seen) for each in changes) <= 2
    judged = [each.verdict for one in changes for each in one.differences]
    assert judged.count(NO_DIFFERENCE) >= 0.95 * len(judged)


def test_a_drift_within_runs_is_no_difference() -> None:
    seen = [bool(Changes(run(2 * at, drift=0.15), run(2 * at + 1, drift=0.15)).seen) for at in range(40)]
    assert sum(seen) <= 2


def test_what_became_slower_is_found_and_nothing_else() -> None:
    changes = Changes(run(1), run(2, changed={"prepare": 1.6}))
    assert {(each.name, each.measure, each.verdict) for each in changes.seen} == {
        (f"kernel_{at}", measure, SLOWER) for at in range(2) for measure in ("host", "prepare")}
    (worst, *_) = changes.differences
    assert worst.measure == "prepare" and worst.low_percent < 60 < worst.high_percent
    assert changes.over(20) == changes.over(20.0) and not changes.over(70)
    back = Changes(run(2, changed={"prepare": 1.6}), run(1))
    assert {each.verdict for each in back.seen} == {FASTER} and not back.over(0)


def test_the_gpu_is_judged_by_launch_configuration() -> None:
    changes = Changes(run(1), run(2, changed={"execute": 0.5}))
    assert {each.measure for each in changes.seen} == {"execute"}
    assert {each.configuration for each in changes.seen} == {"grid 4, block 128"}
    assert {each.measure for each in changes.differences} == set(MEASURES)


def test_processes_are_matched_by_their_numbers() -> None:
    """Not each with each: thousands of workers would be millions of pairs."""
    def workers(count: int) -> Recording:
        made = Script()
        for number in range(count):
            made._add("processes", "process_id", {"pid": number + 1, "status": "ok", "start_ns": 10**9 + number})
        return made.recording()

    two, three, some, twice = (workers(count) for count in (2, 3, 200, 400))
    assert is_same_process(three, two) and not is_same_process(two, three)
    assert lines_run(lambda: is_same_process(twice, twice)) < 2.2 * lines_run(lambda: is_same_process(some, some))


def test_two_processes_have_a_larger_margin() -> None:
    slower = {"prepare": 1.25}
    one, two = run(1, offset=0, changed=slower), run(1, pid=11, offset=0, changed=slower)
    before = run(2, offset=0)
    assert is_same_process(before, one) and not is_same_process(before, two)
    assert [each.verdict for each in Changes(before, one).differences if each.measure == "prepare"] == [SLOWER] * 2
    widths = [{each.measure: each.high_percent - each.low_percent for each in Changes(before, other).differences}
              for other in (one, two)]
    assert widths[1]["prepare"] - widths[0]["prepare"] == pytest.approx(10, abs=5)
    assert widths[1]["execute"] - widths[0]["execute"] == pytest.approx(20, abs=5)


def test_first_launches_and_compiles_are_left_out() -> None:
    script = Script()
    script.cell()
    script.launchable()
    for _ in range(3):
        script.launch(phases=(3_000, 200 * MS, 4_000, 2_000, 1_000))
        script.launch(phases=(3_000, 0, 900_000, 2_000, 1_000), cache="disk")
    script.launch(phases=(3_000, 0, 700_000, 2_000, 1_000))  # the first in its cell
    for _ in range(20):
        script.launch()
    changes = Changes(script.recording(), script.recording())
    assert {each.measure: each.before_ns for each in changes.differences} == {
        "host": 10_000, "dispatch": 3_000, "prepare": 4_000, "submit": 2_000, "finish": 1_000}
    assert {each.launches for each in changes.differences} == {(20, 20)}


@pytest.mark.parametrize(("speed", "took", "verdicts"), [
    (1.0, 1.7, {SLOWER}), (2.3, 1.7, {NO_DIFFERENCE}), (1 / 2.3, 1 / 1.7, {NO_DIFFERENCE}), (2.3, 1.0, {NO_DIFFERENCE}),
    (2.3, 4.0, {SLOWER}), (1.3, 0.6, {FASTER}), (None, 1.7, {NO_DIFFERENCE}), (None, 2.6, {SLOWER}),
])
def test_what_a_slower_processor_explains_is_no_difference(
        speed: float | None, took: float, verdicts: set[str]) -> None:
    phases = ("dispatch", "prepare", "submit", "finish")
    before, after = run(1, noise=0.05), run(2, noise=0.05, changed=dict.fromkeys(phases, took), reference=speed)
    changes = Changes(before, after)
    assert {each.verdict for each in changes.differences if each.measure == "prepare"} == verdicts
    assert {each.verdict for each in changes.differences if each.measure == "execute"} == {NO_DIFFERENCE}
    said = "is not known" if speed is None else "slower in the second" if speed > 1 else "faster in the second"
    assert any(said in note for note in changes.notes) == (speed != 1.0)


def test_short_phases_of_a_loaded_machine_are_no_difference() -> None:
    """Phases of 0.3 to 1 µs, noisy, that take 1.0 to 1.8 times as long where the processor is 1.3 times slower."""
    random = np.random.default_rng(0)
    short = {"dispatch": 0.5, "submit": 0.2, "finish": 1.5}
    for at in range(20):
        grown = {name: times * random.uniform(1.0, 1.8) for name, times in short.items()} | {"prepare": 1.3}
        changes = Changes(run(2 * at, noise=0.3, changed=short),
                          run(2 * at + 1, noise=0.3, changed=grown, reference=1.3))
        assert not changes.seen
        assert "the processor was up to 1.3 times slower" in changes.notes[0]


@pytest.mark.parametrize(("reference", "times", "verdict"), [
    (1.0, 2.0, SLOWER), (1.0, 1.5, SLOWER), (1.3, 1.55, NO_DIFFERENCE), (1.3, 2.0, SLOWER),
    (1 / 1.3, 1 / 1.55, NO_DIFFERENCE), (1 / 1.3, 1 / 2.2, FASTER),
])
def test_long_phases_are_judged_against_what_the_processor_s_speed_explains(
        reference: float, times: float, verdict: str) -> None:
    """A phase of 20 µs."""
    before, after = (run(at, noise=0.05, changed={"prepare": 20 / 9 * grown}, reference=speed) for at, grown, speed in (
        (1, 1.0, 1.0), (2, times, reference)))
    found = {each.verdict for each in Changes(before, after).differences if each.measure == "prepare"}
    assert found == {verdict}


def test_the_whole_of_a_short_launch_has_no_margin_of_a_phase() -> None:
    """A launch of 3 µs that takes 1 µs more: of its phases none is told apart, the launch is."""
    short = {"dispatch": 0.5, "prepare": 0.1, "submit": 0.4, "finish": 1.0}
    slower = {name: times * 1.4 for name, times in short.items()}
    changes = Changes(run(1, noise=0.05, changed=short), run(2, noise=0.05, changed=slower))
    assert {each.measure for each in changes.seen} == {"host"}


def test_few_launches_are_counted_and_not_judged() -> None:
    changes = Changes(run(1, launches=6), run(2, launches=6))
    assert not changes.differences
    assert changes.notes == ("2 kernels and graphs with fewer than 8 repeated launches in one of the two: not judged",)


def test_of_many_kernels_the_longest_are_judged() -> None:
    changes = Changes(run(1, 12, kernels=45, gpu=False), run(2, 12, kernels=45, gpu=False))
    assert len({each.name for each in changes.differences}) == 40
    assert "5 more kernels and graphs that took less time" in changes.notes[0]


def test_a_dry_run_is_not_judged_against_a_gpu() -> None:
    changes = Changes(run(1), run(2, gpu=False, dry_run=True, changed={"prepare": 3.0}))
    assert not changes.differences and "do not compare" in changes.notes[0]
    assert changes.section("kernels") is not None


def test_the_launches_of_graphs_are_judged() -> None:
    def recording(took: int) -> Recording:
        script = Script()
        script.cell(reference_ns=15_000.0)
        script.kernel()
        script.graph_node(script.graph())
        script.graph_event("instantiate")
        for at in range(30):
            script.graph_event(exec_id=0, duration_ns=took + 50 * (at % 3), execute_ns=60_000)
        return script.recording()

    changes = Changes(recording(8_000), recording(16_000))
    assert {(each.name, each.measure, each.verdict) for each in changes.differences} == {
        ("graph of axpy", "host", SLOWER), ("graph of axpy", "execute", NO_DIFFERENCE)}


# What is counted.

def test_kernels_are_new_gone_and_changed() -> None:
    before, after = Script(), Script()
    for script, names in ((before, ("same", "more", "gone")), (after, ("new", "more", "same"))):
        script.cell()
        for at, name in enumerate(names):
            script.launchable(name)
            for _ in range(2 if script is after and name == "more" else 1):
                script.launch(at, specialization=at, configuration=at)
    changes = Changes(before.recording(), after.recording())
    assert {name: status for name, (status, _, _) in rows(changes, "kernels").items()} == {
        "new numba-cuda": "new", "more numba-cuda": "changed", "gone numba-cuda": "gone"}
    section = changes.section("kernels")
    assert section is not None and section.counts() == {"new": 1, "gone": 1, "changed": 1, "same": 1}
    assert rows(changes, "configurations")["more grid 4, block 128"] == ("changed", (1,), (2,))


def test_a_cell_that_ran_again_has_the_lines_of_its_run_before() -> None:
    changes = Changes(run(1, cell=3), run(2, cell=7))
    assert not rows(changes, "lines")
    section = changes.section("lines")
    assert section is not None and [row.name for row in section.rows] == ["In[7]:2"]


def test_specializations_are_compared_by_their_resources() -> None:
    def recording(regs: int, **more: int) -> Recording:
        script = Script()
        script.kernel()
        script.specialization(regs=regs, cubin_bytes=4_000, spill_store_bytes=more.get("spills"))
        script.configuration()
        script.launch()
        return script.recording()

    changes = Changes(recording(32, spills=0), recording(40, spills=16))
    (row,) = rows(changes, "specializations").values()
    assert row == ("changed", (32, 0, None, None, None, 4_000), (40, 16, None, None, None, 4_000))
    # What one of the two does not know has not changed.
    assert not rows(Changes(recording(32, spills=0), recording(32)), "specializations")


def test_compiles_are_counted_by_outcome_and_say_their_reason() -> None:
    def recording(*compiled: str) -> Recording:
        script = Script()
        script.cell()
        script.launchable()
        for outcome in compiled:
            script.compilation(outcome=outcome, cell_id=0, specialization_id=0)
        script.launch()
        return script.recording()

    changes = Changes(recording("compiled"), recording("compiled", "compiled", "disk"))
    ((name, row),) = rows(changes, "compiles").items()
    assert name.startswith("axpy (array(float32, 1d, C),): the kernel had no specialization yet")
    assert row == ("changed", (1, 0, 0, 250 * MS), (2, 1, 0, 750 * MS))
    assert not rows(Changes(recording("compiled"), recording("compiled")), "compiles")
    assert len(CONDITIONS["new-compiles"][1](changes)) == 1


def test_ranges_copies_errors_and_processes() -> None:
    def recording(times: int) -> Recording:
        script = Script()
        script.cell()
        for rank in range(2):
            script._add("processes", "process_id", {"rank": rank, "pid": 100 * times + rank, "status": "ok"})
            script._add("threads", "thread_id", {"ident": rank, "process_id": rank})
        script.launchable()
        for _ in range(times):
            script.range("step", start_ns=script.now, end_ns=script.now + 1_000)
            script.activity("memcpy", "HtoD", size_bytes=1_000)
            script.launch(error="ValueError", thread_id=1)
        return script.recording()

    changes = Changes(recording(1), recording(3))
    assert rows(changes, "copies") == {"memcpy HtoD": ("changed", (1, 1_000, 20_000), (3, 3_000, 60_000))}
    assert rows(changes, "errors") == {"axpy ValueError": ("changed", (1,), (3,))}
    assert {name: status for name, (status, *_) in rows(changes, "ranges").items()} == {"step": "changed"}
    # A pid is another one in each run; a rank is the same.
    assert {name: status for name, (status, *_) in rows(changes, "processes").items()} == {"rank 1": "changed"}


def test_graphs_are_matched_by_their_topology() -> None:
    def recording(rebuilds: int) -> Recording:
        script = Script()
        script.cell()
        script.kernel()
        script.graph_node(script.graph(fingerprint=f"f{rebuilds}", topology="t"))
        first = script.graph_event("instantiate")
        for _ in range(rebuilds):
            script.graph_event("instantiate", rebuild_of=first, change="none")
        return script.recording()

    changes = Changes(recording(1), recording(4))
    (row,) = rows(changes, "graphs").items()
    assert row == ("axpy 1 node", ("changed", (0, 2, 1, 0, 0, 0, 16_000), (0, 5, 4, 0, 0, 0, 40_000)))
    assert CONDITIONS["more-rebuilds"][1](changes) == ["axpy 1 node, 1 to 4"]


def test_totals_and_wall_time() -> None:
    changes = Changes(run(1, 20), run(2, 30))
    totals = dict(zip([each.key for each in changes.totals.measures], changes.totals.rows[0].after or (), strict=True))
    assert totals["launches"] == 60 and totals["compiles"] == 0 and totals["errors"] == 0
    assert totals["gpu_ns"] > 60 * 20_000
    parts = {row.name: row for row in changes.time.rows}
    assert sum(row.after[0] or 0 for row in parts.values() if row.after) == totals["wall_ns"]
    assert parts["prepare"].before is not None


@pytest.mark.parametrize("name", CONDITIONS)
def test_no_condition_holds_of_a_recording_and_itself(name: str) -> None:
    recording = run(1)
    assert CONDITIONS[name][1](Changes(recording, recording)) == []


def test_conditions_say_what_they_found() -> None:
    before, after = Script(), Script()
    for script in (before, after):
        script.cell()
        script.kernel()
        script.specialization(regs=32 if script is before else 40, spill_store_bytes=0 if script is before else 8)
        script.configuration()
        script.launch()
    after.launchable("other")
    after.launch(1, specialization=1, configuration=1, error="ValueError")
    after.compilation(1, cell_id=0, specialization_id=1, reason="its first use")
    after.activity("memcpy", "HtoD", size_bytes=64)
    changes = Changes(before.recording(), after.recording())
    found = {name: finding(changes) for name, (_, finding) in CONDITIONS.items()}
    assert {name for name, lines in found.items() if lines} == set(CONDITIONS) - {"more-rebuilds"}
    assert found["more-launches"] == ["1 to 2"] and found["more-copies"] == ["0 to 64"]
    assert found["new-kernels"] == ["other numba-cuda, 0 to 1"]
    assert found["more-registers"] == ["axpy (array(float32, 1d, C),), 32 to 40"]


def test_what_else_changed_is_said() -> None:
    before = run(1, detail="phases", packages={"numba": "0.61", "numpy": "2"})
    after = run(2, detail="launch", packages={"numba": "0.62", "numpy": "2"})
    assert Changes(before, after).changes == (
        "detail: phases before, launch now", "numba: 0.61 before, 0.62 now")
