"""What a study found, as data."""

import math

import pytest

from kernelscope.studies.result import NO_DIFFERENCE, Difference, Estimate, Judgement


def estimate(target, case, us, half):
    return Estimate(target, case, us, us, 0.1, us - half, us + half, 16, 80)


def difference(target, case, baseline, half, within=False):
    return Difference(target, case, baseline, within, 0, -half, half, 0, -half, half, NO_DIFFERENCE)


ESTIMATES = (estimate("a", "k0", 4.0, 0.4), estimate("a", "k1", 10.0, 0.1), estimate("b", "k0", 8.0, 0.2),
             estimate("b", "k1", 10.0, 0.1))


def test_the_widest_interval_is_a_share_of_what_is_compared():
    judgement = Judgement(ESTIMATES, (difference("b", "k0", "a", 0.4), difference("b", "k1", "a", 0.3)))
    assert judgement.widest() == pytest.approx(0.4 / 8)
    assert judgement.widest(["b"]) == judgement.widest()


def test_within_a_target_it_is_a_share_of_the_longer_case():
    judgement = Judgement(ESTIMATES, (difference("a", "k1", "k0", 0.3, within=True),))
    assert judgement.widest() == pytest.approx(0.03)


def test_targets_that_have_failed_need_not_count():
    estimates = (*ESTIMATES, estimate("failed", "k0", 4.0, math.inf))
    judgement = Judgement(estimates, (difference("b", "k0", "a", 0.4), difference("failed", "k0", "a", math.inf)))
    assert judgement.widest() == math.inf
    assert judgement.widest(["b"]) == pytest.approx(0.05)


def test_without_differences_estimates_count():
    assert Judgement(ESTIMATES).widest() == pytest.approx(0.1)
    assert Judgement(ESTIMATES).widest(["b"]) == pytest.approx(0.025)


def test_nothing_measured_is_not_narrow():
    assert Judgement().widest() == math.inf


def test_half_a_width():
    assert difference("b", "k0", "a", 0.4).half_width_us == pytest.approx(0.4)
