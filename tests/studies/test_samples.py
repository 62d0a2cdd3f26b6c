"""From batches to values of processes and differences of pairs."""

import pytest
import study_noise

from kernelscope.studies.result import CaseReport, Measured, TargetReport
from kernelscope.studies.statistics import BLOCKS, counting, middle, paired, quiet_share, samples


def measured(rows, *, live=False):
    """Of (target, process, round, ns a launch); a batch has ten launches and a wait of 50 ns."""
    labels = list(dict.fromkeys(row[0] for row in rows))
    return Measured([TargetReport(label, "current", "") for label in labels], [CaseReport("k", "k()")],
                    [(label, "k", process, number, 0, 0, 10, 10 * ns, 50, 0, 0) for label, process, number, ns in rows],
                    is_live=live)


def test_a_process_is_the_median_of_its_batches():
    found = samples(measured([("a", 0, 0, 4000), ("a", 0, 1, 9000), ("a", 0, 2, 5000), ("a", 2, 0, 7000)]))["a", "k"]
    assert found.medians().tolist() == [5, 7]
    assert found.batches == 4
    assert middle(found) == 6
    assert middle(found, [2]) == 7


def test_the_order_is_the_studys_and_not_that_of_batches():
    study = study_noise.study(0, processes=2, repeats=1)
    study.batches.reverse()
    assert list(samples(study)) == [(f"t{number}", name) for number in range(3) for name in study_noise.CASES]


def test_a_pair_is_compared_round_by_round():
    # The third round is disturbed in both, the second in one.
    a = [("a", 0, 0, 4000), ("a", 0, 1, 4000), ("a", 0, 2, 8000)]
    b = [("b", 0, 0, 5000), ("b", 0, 1, 7000), ("b", 0, 2, 9000)]
    found = samples(measured(a + b))
    values, processes = paired(found["b", "k"], found["a", "k"])
    assert values.tolist() == [1]
    assert processes == [0]


def test_only_processes_that_both_have_are_compared():
    rows = [("a", process, 0, 4000) for process in (0, 1, 2)]
    found = samples(measured(rows + [("b", process, 0, 5000 + process) for process in (1, 2, 3)]))
    values, processes = paired(found["b", "k"], found["a", "k"])
    assert processes == [1, 2]
    assert values == pytest.approx([1.001, 1.002])


def test_without_common_rounds_medians_are_compared():
    found = samples(measured([("a", 0, 0, 4000), ("b", 0, 1, 6000), ("b", 0, 2, 8000)]))
    assert paired(found["b", "k"], found["a", "k"])[0].tolist() == [3]


def test_batches_that_measured_nothing_are_left_out():
    study = measured([("a", 0, 0, 4000)])
    study.batches += [("a", "k", 0, 1, 0, 0, 0, 100, 0, 0, 0), ("a", "k", 0, 2, 0, 0, 10, 0, 0, 0, 0)]
    assert samples(study)["a", "k"].processes == {0: {0: 4.0}}


@pytest.mark.parametrize(("rounds", "blocks"), [(80, 16), (16, 16), (5, 5), (1, 1), (17, 9), (100, 15)])
def test_the_running_process_is_divided_into_blocks(rounds, blocks):
    found = samples(measured([("a", 0, number, 4000) for number in range(rounds)], live=True))["a", "k"]
    assert len(found.processes) == blocks <= BLOCKS
    assert found.batches == rounds
    # Those of a block followed one another.
    assert all(max(block) - min(block) == len(block) - 1 for block in found.processes.values())


def beside(rows):
    """Of (target, process, round, ns a launch, ns of the reference)."""
    study = measured([row[:4] for row in rows])
    study.batches = [(*batch[:10], row[4]) for batch, row in zip(study.batches, rows, strict=True)]
    return study


def test_batches_at_quiet_moments_are_what_counts():
    slow = [("a", 0, number, 9000, 90) for number in range(4)]
    study = beside([("a", 0, number, 4000 + number, 50 + number) for number in range(4, 10)] + slow)
    found = samples(study)["a", "k"]
    assert found.medians().tolist() == [4.0065]
    assert found.batches == 10
    assert [row[3] for row in counting(study)] == [4, 5, 6, 7, 8, 9]
    assert quiet_share(study) == pytest.approx(0.6)


def test_where_few_are_quiet_the_quieter_half_counts():
    study = beside([("a", 0, number, 1000 * number, 50 + 20 * number) for number in range(1, 8)])
    assert samples(study)["a", "k"].medians().tolist() == [2.5]


def test_both_of_a_round_have_to_be_quiet():
    a = [("a", 0, 0, 4000, 50), ("a", 0, 1, 4000, 50), ("a", 0, 2, 4000, 90), ("a", 0, 3, 4000, 50)]
    b = [("b", 0, 0, 5000, 30), ("b", 0, 1, 9000, 60), ("b", 0, 2, 9000, 30), ("b", 0, 3, 5200, 30)]
    found = samples(beside(a + b))
    assert paired(found["b", "k"], found["a", "k"])[0].tolist() == pytest.approx([1.1])


def test_where_nothing_tells_all_count():
    study = measured([("a", 0, number, 4000) for number in range(4)])
    assert quiet_share(study) is None
    assert counting(study) == study.batches


def test_blocks_of_the_running_process_have_their_own_quiet_moments():
    study = beside([("a", 0, number, 4000 if number % 2 else 9000, 50 if number % 2 else 90) for number in range(64)])
    study.is_live = True
    assert samples(study)["a", "k"].medians().tolist() == [4.0] * BLOCKS
