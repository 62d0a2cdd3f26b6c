"""On which core a study's processes are, and which rounds are quiet."""

from __future__ import annotations

from kernelscope.studies.runner import Quietness


def test_the_first_of_a_round_seeks_and_the_others_follow() -> None:
    quietness = Quietness((5, 6, 7))
    quietness.learn("a", 50_000)
    quietness.learn("b", 40_000)
    quietness.next_round()
    assert quietness.request("a") == {"core": None, "quiet_ns": 60_000}
    quietness.took("a", 5, 55_000)
    assert quietness.request("b") == {"core": 5, "quiet_ns": None}
    quietness.took("b", 5, 40_000)
    quietness.next_round()
    assert quietness.request("b") == {"core": 5, "quiet_ns": 48_000}
    quietness.took("b", 7, 40_000)
    assert quietness.request("a") == {"core": 7, "quiet_ns": None}
    assert quietness.request("a", seeks=True) == {"core": 7, "quiet_ns": 60_000}
    assert quietness.moves == 1


def test_the_best_of_all_processes_counts() -> None:
    quietness = Quietness(())
    for best_ns in (50_000, 40_000, 90_000):
        quietness.learn("a", best_ns)
    assert quietness.request("a")["quiet_ns"] == 48_000


def test_a_round_is_quiet_where_three_of_four_batches_are() -> None:
    quietness = Quietness((0,))
    quietness.learn("a", 50_000)
    for references, is_quiet in (((50_000,) * 4, True), ((90_000, 50_000, 60_000, 50_000), True),
                                 ((90_000, 61_000, 50_000, 50_000), False), ((90_000,), False)):
        quietness.next_round()
        for reference_ns in references:
            quietness.took("a", 0, reference_ns)
        assert quietness.is_quiet is is_quiet


def test_what_is_not_known_is_quiet_and_what_is_no_core_is_not_kept() -> None:
    quietness = Quietness((1, 2))
    quietness.took("a", "1", 10**9)
    quietness.took("a", 3, 10**9)
    quietness.took("a", None, 10**9)
    assert quietness.is_quiet
    assert (quietness.core, quietness.moves) == (None, 0)
    assert quietness.request("a", seeks=True) == {"core": None, "quiet_ns": None}
