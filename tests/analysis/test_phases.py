from __future__ import annotations

from typing import Any

import numpy as np

from kernelscope.analysis.launches import PHASES, PhaseTotals, launch_phases, phase_totals


def _base(script: Any, **metadata: Any) -> Any:
    made = script(**metadata)
    made.kernel()
    made.specialization()
    made.configuration()
    return made


def test_phases_of_a_launch_add_up_exactly(script: Any) -> None:
    made = _base(script)
    random = np.random.default_rng(1)
    for _ in range(200):
        made.launch(phases=tuple(random.integers(0, 10_000, 5).tolist()))
    phases = launch_phases(made.recording())
    assert (sum(phases.phases[name] for name in PHASES) == phases.host_ns).all()
    total = phases.total()
    assert sum(total.phase(name) or 0 for name in PHASES) == total.host_ns == int(phases.host_ns.sum())
    assert (total.unsplit_ns, total.is_split) == (0, True)


def test_compile_is_taken_out_of_dispatch(script: Any) -> None:
    made = _base(script)
    made.launch(phases=(3, 100, 4, 5, 6))
    total = phase_totals(made.recording())
    assert total == PhaseTotals(118, 3, 100, 4, 5, 6, 0)
    assert total.segments == (("dispatch", 3), ("compile", 100), ("prepare", 4), ("submit", 5), ("finish", 6))


def test_what_was_not_recorded_is_none_and_its_time_unsplit(script: Any) -> None:
    made = _base(script)
    made.launch(phases=None)
    total = phase_totals(made.recording())
    assert (total.host_ns, total.unsplit_ns, total.is_split) == (10_000, 10_000, False)
    assert [total.phase(name) for name in PHASES] == [None] * 5
    assert total.segments == (("unsplit", 10_000),)


def test_a_failed_launch_has_host_time_without_phases(script: Any) -> None:
    made = _base(script)
    made.launch(phases=(1, 0, 2, 3, 4))
    made.launch(phases=None, error="TypeError")
    total = phase_totals(made.recording())
    assert (total.host_ns, total.dispatch_ns, total.unsplit_ns) == (10_010, 1, 10_000)


def test_a_launch_without_an_end_is_in_no_total(script: Any) -> None:
    made = _base(script)
    made.launch(phases=(1, 0, 2, 3, 4), end_ns=None)
    phases = launch_phases(made.recording())
    assert phases.host_ns.tolist() == [-1]
    assert phases.phases["prepare"].tolist() == [2]
    assert phases.total() == PhaseTotals()


def test_nothing_launched() -> None:
    from kernelscope.recording.model import Recording

    assert phase_totals(Recording({}, {})) == PhaseTotals()


def _nested(script: Any, start_ns: int) -> Any:
    """A launch of 1000 to 1100 (20 + 30 compile, 20, 10, 20), and one of 4 ns inside it."""
    made = _base(script)
    made.now = 1_000
    made.launch(phases=(20, 30, 20, 10, 20), compilation_id=0)
    made.compilation(launch_id=0, start_ns=1_005, end_ns=1_035, specialization_id=0)
    made.launch(phases=(1, 0, 1, 1, 1), parent_launch_id=0)
    child = made.rows["launches"][1]
    moved = start_ns - child["start_ns"]
    for name in ("start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns"):
        child[name] += moved
    return made.recording()


def test_a_nested_launch_is_counted_once_and_taken_from_the_phase_it_began_in(script: Any) -> None:
    for start, phase in ((1_001, "dispatch"), (1_010, "compile"), (1_055, "prepare"), (1_072, "submit"),
                         (1_085, "finish")):
        phases = launch_phases(_nested(script, start))
        assert phases.host_ns.tolist() == [100, 4]
        assert phases.own_ns.tolist() == [96, 4]
        taken = {name: int(phases.phases[name][0] - phases.own_phases[name][0]) for name in PHASES}
        assert taken == {name: 4 if name == phase else 0 for name in PHASES}
        assert (sum(phases.own_phases[name] for name in PHASES) == phases.own_ns).all()
        assert phases.total().host_ns == 100


def test_totals_by_group_leave_out_rows_without_one(script: Any) -> None:
    made = _base(script)
    for _ in range(3):
        made.launch(phases=(1, 0, 2, 3, 4))
    totals = launch_phases(made.recording()).totals_by(np.array([1, -1, 1]), 2)
    assert [total.host_ns for total in totals] == [None, 20]
