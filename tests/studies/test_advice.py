"""What is said besides a verdict."""

import pytest

from kernelscope.studies.statistics import Situation, device_bound, noise, ruled_out, what_would_help


def situation(half=10.0, pairs=16, limit=5.0, **options):
    return Situation(pairs, -half, half, limit, **options)


def test_what_is_ruled_out_is_the_farther_end_and_rounded_up():
    assert ruled_out(Situation(16, -1.21, 0.4, 5)) == "more than 1.3 % is ruled out"
    assert ruled_out(Situation(16, -12.2, 0.4, 5)) == "more than 13 % is ruled out"
    assert ruled_out(Situation(16, -1.2, 0.4, 5)) == "more than 1.2 % is ruled out"
    assert ruled_out(Situation(16, -0.1, 2.5, 5)) == "more than 2.5 % is ruled out"


def test_it_says_how_many_processes_would_do():
    assert "about 64 processes instead of 16 would bring it below 5.0 %" in what_would_help(situation(10), {})
    assert "more processes alone would not do" in what_would_help(situation(40), {})


def test_a_live_study_has_blocks():
    assert "blocks of batches" in what_would_help(situation(is_live=True), {})


def test_a_noisy_host_is_named():
    host = {"noise": 0.07, "pinned_to": None, "governor": "powersave"}
    assert noise(host) == ["7.0 % of the processor's time went to others: close what else runs",
                           "the processes were not pinned to a processor",
                           "the frequency governor is powersave, not performance"]
    assert all(hint in what_would_help(situation(), host) for hint in noise(host))


@pytest.mark.parametrize("host", [{}, {"noise": 0.001, "pinned_to": [3], "governor": "performance"},
                                  {"noise": None, "governor": None}])
def test_nothing_is_said_of_a_quiet_host_or_one_that_is_not_known(host):
    assert noise(host) == []


def test_a_wait_for_the_device_is_told():
    assert device_bound(situation(device_share=0.05)) == ""
    assert "45 % of the batch" in device_bound(situation(device_share=0.45))
