from __future__ import annotations

from typing import Any

from graph_stories import with_builds
from handmade import MS, US, Script

from kernelscope.analysis.builds import build_table, by_algorithm


def _recording(script: type[Script]) -> Any:
    made = script()
    made.cell()
    return with_builds(made).recording()


def test_by_algorithm_most_time_first(script: type[Script]) -> None:
    reduce, sort = by_algorithm(_recording(script))
    assert (reduce.framework, reduce.algorithm) == ("cuda.compute", "reduce_into")
    assert (reduce.requests, reduce.hits, reduce.misses, reduce.waits, reduce.failed) == (3, 1, 2, 0, 0)
    assert reduce.host_ns == 2_700 * MS + 80 * US
    assert (reduce.build_ns, reduce.cubin_bytes) == (2_550 * MS, 40_960)
    assert reduce.miss is not None and reduce.miss.p50_ns == 1_350 * MS
    assert reduce.hit is not None and reduce.hit.p50_ns == 80 * US
    assert [each.reason_code for each in reduce.not_hits] == ["new_operator_name", None]
    assert (sort.algorithm, sort.waits, sort.miss, sort.build_ns) == ("merge_sort", 1, None, None)


def test_two_matching_requests_are_one_build_and_one_hit(script: type[Script]) -> None:
    made = script()
    made.build()
    made.build(outcome="hit", duration_ns=80 * US)
    found, = by_algorithm(made.recording())
    assert (found.misses, found.hits) == (1, 1)


def test_requests_without_an_end_and_failed_ones(script: type[Script]) -> None:
    made = script()
    made.build(end_ns=None)
    made.build(outcome="failed", error="ValueError: no")
    found, = by_algorithm(made.recording())
    assert (found.misses, found.failed, found.miss) == (1, 1, None)
    assert [each.error for each in found.not_hits] == ["ValueError: no", None]


def test_table_of_builds(script: type[Script]) -> None:
    table: Any = build_table(_recording(script))
    assert table.algorithm.tolist() == ["reduce_into", "merge_sort"]
    assert table.hits.tolist() == [1, 0]
    assert table.miss_p50_ns.isna().tolist() == [False, True]
    assert len(build_table(script().recording())) == 0
