"""Launches that took far longer than others of their kernel, and what else happened then."""

from __future__ import annotations

from handmade import Script

from kernelscope.analysis.outliers import DESCRIBED, Meanwhile, outliers
from kernelscope.views.card.verdict import outliers_line

USUAL = (3_000, 0, 4_000, 2_000, 1_000)


def launched(usual: int, *long: int) -> Script:
    """A recording of launches of 10 us, and of some that took longer in prepare, in nanoseconds."""
    made = Script()
    made.kernel()
    made.specialization()
    made.configuration()
    for _ in range(usual):
        made.launch(phases=USUAL)
    for each in long:
        made.launch(phases=(3_000, 0, each, 2_000, 1_000))
    made.rows["threads"] = [
        {"thread_id": number, "ident": number, "name": "", "process_id": of} for number, of in enumerate((0, 0, 0, 1))]
    return made


def test_long_launches_hold_much_of_the_time() -> None:
    found = outliers(launched(100, 600_000, 34_000_000, 500_000).recording())
    assert found is not None
    assert (found.launches, found.of, found.spent_ns, found.of_ns) == (3, 103, 35_118_000, 36_118_000)
    assert [(each.launch_id, each.phase, each.phase_ns) for each in found.longest] == [
        (101, "prepare", 34_000_000), (100, "prepare", 600_000), (102, "prepare", 500_000)]
    assert outliers_line(found) == (
        "3 of 103 launches (2.9 %) took 35.1 ms of 36.1 ms; the longest, launch 101 (axpy), 34.0 ms in prepare.")


def test_what_holds_no_more_than_its_share_does_not_stand_out() -> None:
    assert outliers(Script().recording()) is None
    assert outliers(launched(100).recording()) is None
    assert outliers(launched(100, 60_000).recording()) is None  # 6 % of the time
    assert outliers(launched(40, *[100_000] * 10).recording()) is None  # a fifth of the launches


def test_all_launches_of_a_kernel_may_be_far_longer_than_those_of_others() -> None:
    made = launched(100)
    made.kernel("scale")
    for _ in range(4):
        made.launch(1, phases=(3_000, 0, 1_000_000, 2_000, 1_000), specialization=None)
    found = outliers(made.recording())
    assert found is not None and (found.launches, found.kernel) == (4, "scale")
    assert outliers_line(found).startswith(
        "4 of 104 launches (3.8 %), all of scale, took 4.02 ms of 5.02 ms; the longest, launch 100 (scale), ")


def test_only_some_are_described() -> None:
    found = outliers(launched(200, *[900_000] * 12).recording())
    assert found is not None and found.launches == 12 and len(found.longest) == DESCRIBED


def test_compiles_are_no_outliers() -> None:
    made = launched(100)
    made.launch(phases=(3_000, 90_000_000, 4_000, 2_000, 1_000))
    assert outliers(made.recording()) is None


def test_what_happened_meanwhile() -> None:
    made = launched(100)
    start = made.now
    slow = made.launch(phases=(3_000, 0, 9_000_000, 2_000, 1_000), specialization=made.specialization())
    made.api_call("cuLibraryLoadData", start_ns=start, end_ns=start + 1_000_000)
    made.api_call("cuMemAlloc_v2", start_ns=start + 2_000_000, end_ns=start + 2_500_000)
    made.api_call("cuMemFree_v2", start_ns=start + 2_400_000, end_ns=start + 2_600_000)
    made.api_call("cuMemAlloc_v2", start_ns=start, end_ns=start + 5_000_000, thread_id=1)
    made.activity("memcpy", "HtoD", start_ns=start + 3_000_000, submit_start_ns=start + 3_000_000,
                  submit_end_ns=start + 5_000_000, size_bytes=1 << 20)
    made.activity("memcpy", "HtoD", start_ns=start - 50_000, submit_start_ns=start - 50_000,
                  submit_end_ns=start - 40_000)
    made.compilation(start_ns=start + 8_000_000, end_ns=start + 90_000_000, thread_id=1)
    made.now = start + 8_500_000
    made.launch(phases=USUAL, thread_id=2)
    # Another process does as it likes.
    made.compilation(start_ns=start, end_ns=start + 90_000_000, thread_id=3)
    made.collection(start_ns=start, end_ns=start + 90_000_000, thread_id=3)
    made.now = start + 8_700_000
    made.launch(phases=USUAL, thread_id=3)
    found = outliers(made.recording())
    assert found is not None
    only, = found.longest
    assert only.launch_id == slow and only.is_first
    assert only.meanwhile == (
        Meanwhile("copy", 1, 2_000_000, 1 << 20), Meanwhile("compile", 1, 1_006_000), Meanwhile("load", 1, 1_000_000),
        Meanwhile("memory", 2, 600_000), Meanwhile("threads", 1, 10_000))
    assert outliers_line(found) == (
        "1 of 103 launches took 9.01 ms of 10.0 ms: launch 100 (axpy), in prepare (its specialization's first, 2.00 ms "
        "copying 1.0 MiB, another thread compiled for 1.01 ms of it, 1.00 ms loading code).")


def test_what_happened_while_it_compiled_is_left_out() -> None:
    made = launched(100)
    start = made.now
    made.launch(phases=(1_000_000, 500_000_000, 9_000_000, 2_000, 1_000))
    made.compilation(start_ns=start + 1_000_000, end_ns=start + 501_000_000)
    made.collection(start_ns=start + 2_000_000, end_ns=start + 400_000_000, thread_id=1)
    made.collection(start_ns=start + 500_000_000, end_ns=start + 503_000_000, thread_id=1)
    made.now = start + 3_000_000
    made.launch(phases=USUAL, thread_id=1)
    found = outliers(made.recording())
    assert found is not None
    assert found.longest[0].meanwhile == (Meanwhile("other_gc", 1, 2_000_000, None, 2),)


def test_garbage_collections_are_named_with_their_generation() -> None:
    made = launched(100)
    start = made.now
    made.launch(phases=(3_000, 0, 34_000_000, 2_000, 1_000))
    made.collection(start_ns=start + 5_000, end_ns=start + 12_005_000, generation=2)
    made.collection(start_ns=start + 20_000_000, end_ns=start + 20_100_000, generation=0)
    made.collection(start_ns=start + 21_000_000, end_ns=start + 22_000_000, thread_id=1, generation=None)
    made.collection(start_ns=start - 1_000_000, end_ns=start, generation=1)
    found = outliers(made.recording())
    assert found is not None
    assert found.longest[0].meanwhile == (
        Meanwhile("gc", 2, 12_100_000, None, 2), Meanwhile("other_gc", 1, 1_000_000))
    assert outliers_line(found) == (
        "1 of 101 launches took 34.0 ms of 35.0 ms: launch 100 (axpy), in prepare (12.1 ms of garbage collection "
        "(generation 2), 1.00 ms of garbage collection on another thread).")


def test_without_phases() -> None:
    made = launched(100)
    made.launch(phases=None, end_ns=made.now + 5_000_000)
    found = outliers(made.recording())
    assert found is not None and found.longest[0].phase is None
    assert outliers_line(found) == "1 of 101 launches took 5.00 ms of 6.00 ms: launch 100 (axpy)."
