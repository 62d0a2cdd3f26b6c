"""Why builds were needed: each code, the nearest build, and what would avoid it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from counting import lines_run
from graph_stories import with_builds
from handmade import MS, US, Script

from kernelscope.analysis.builds import (
    build_table,
    by_algorithm,
    differing_parts,
    explain_builds,
    part_kind,
)
from kernelscope.recording.model import Recording
from kernelscope.schema import BUILD_REASONS


def _recording() -> Any:
    made = Script()
    made.cell()
    return with_builds(made).recording()


def test_by_algorithm_most_time_first() -> None:
    reduce, sort = by_algorithm(_recording())
    assert (reduce.framework, reduce.algorithm) == ("cuda.compute", "reduce_into")
    assert (reduce.requests, reduce.hits, reduce.misses, reduce.waits, reduce.failed) == (3, 1, 2, 0, 0)
    assert reduce.host_ns == 2_700 * MS + 80 * US
    assert (reduce.build_ns, reduce.cubin_bytes) == (2_550 * MS, 40_960)
    assert reduce.miss is not None and reduce.miss.p50_ns == 1_350 * MS
    assert reduce.hit is not None and reduce.hit.p50_ns == 80 * US
    assert [each.reason_code for each in reduce.not_hits] == ["new_operator_name", None]
    assert (sort.algorithm, sort.waits, sort.miss, sort.build_ns) == ("merge_sort", 1, None, None)


def test_two_matching_requests_are_one_build_and_one_hit(made: Script) -> None:
    made.build()
    made.build(outcome="hit", duration_ns=80 * US)
    found, = by_algorithm(made.recording())
    assert (found.misses, found.hits) == (1, 1)


def test_requests_without_an_end_and_failed_ones(made: Script) -> None:
    made.build(end_ns=None)
    made.build(outcome="failed", error="ValueError: no")
    found, = by_algorithm(made.recording())
    assert (found.misses, found.failed, found.miss) == (1, 1, None)
    assert [each.error for each in found.not_hits] == ["ValueError: no", None]


def test_table_of_builds() -> None:
    table: Any = build_table(_recording())
    assert table.algorithm.tolist() == ["reduce_into", "merge_sort"]
    assert table.hits.tolist() == [1, 0]
    assert table.miss_p50_ns.isna().tolist() == [False, True]
    assert len(build_table(Script().recording())) == 0


BASE = {
    "d_in kind": "cupy.ndarray", "d_in dtype": "float32", "d_out kind": "cupy.ndarray", "d_out dtype": "float32",
    "op kind": "function", "op name": "add", "op code": "aeb3d57c3787", "op captured n": "int, value 1",
    "h_init kind": "numpy.ndarray", "h_init dtype": "float32", "determinism": "RUN_TO_RUN",
    "compute_capability": "9.0",
}


def explained(*requests: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of requests, each given as what differs from `BASE`, with ``_outcome`` and other columns."""
    script = Script()
    for request in requests:
        parts = {**BASE, **{name: text for name, text in request.items() if not name.startswith("_")}}
        parts = {name: text for name, text in parts.items() if text is not None}
        columns = {name[1:]: value for name, value in request.items() if name.startswith("_")}
        script.build(**{"key_parts": json.dumps(parts)} | columns)
    return explain_builds(script.recording()).rows("builds")


@pytest.mark.parametrize(("changed", "code", "differing", "said"), [
    ({"op name": "plus"}, "new_operator_name", "op name", "add to plus"),
    ({"op captured n": "int, value 2"}, "new_operator_value", "op captured n", "captures something else"),
    ({"op global helper": "function helper, object 3"}, "new_operator_value", "op global helper", "not there to"),
    ({"op code": "ffff"}, "new_operator", "op code", "aeb3d57c3787 to ffff"),
    ({"op name": "f", "op code": "ff", "op captured n": None}, "new_operator", "op name, op code, op captured n", ""),
    ({"op kind": "OpKind.PLUS", "op name": None, "op code": None, "op captured n": None}, "new_operator",
     "op kind, op name, op code, op captured n", "function to OpKind.PLUS"),
    ({"d_in dtype": "float64"}, "new_dtype", "d_in dtype", "float32 to float64"),
    ({"d_in kind": "torch.Tensor"}, "new_array_type", "d_in kind", "cupy.ndarray to torch.Tensor"),
    ({"d_in kind": "CountingIterator", "d_in dtype": "int32"}, "new_iterator", "d_in kind, d_in dtype", ""),
    ({"compute_capability": "10.0"}, "new_device", "compute_capability", "9.0 to 10.0"),
    ({"determinism": "NOT_GUARANTEED"}, "new_option", "determinism", "RUN_TO_RUN to NOT_GUARANTEED"),
    ({"h_init kind": None, "h_init dtype": None, "h_init": "none"}, "several", "h_init, h_init kind, h_init dtype", ""),
    ({"d_in dtype": "int8", "op name": "g"}, "several", "d_in dtype, op name", "add to g"),
])
def test_what_differs_is_the_reason(changed: dict[str, Any], code: str, differing: str, said: str) -> None:
    first, second = explained({}, changed)
    assert (first["reason_code"], first["nearest_build_id"]) == ("first_use", None)
    assert second["reason_code"] == code
    assert sorted(second["differing_parts"].split(", ")) == sorted(differing.split(", "))
    assert second["nearest_build_id"] == 0
    assert said in second["reason"]
    assert {first["reason_code"], second["reason_code"]} <= set(BUILD_REASONS)


@pytest.mark.parametrize(("changed", "fix"), [
    ({"op name": "plus"}, "keep one named function"),
    ({"op captured n": "int, value 2"}, "hold it in a device array"),
    ({"op captured n": "function helper, object 2"}, "define what the operator refers to once"),
    ({"op captured n": "float32 (7,)"}, "each shape of a captured array is compiled in"),
    ({"d_in dtype": "float64"}, "one dtype"),
    ({"d_in kind": "torch.Tensor"}, "arrays of one library"),
    ({"compute_capability": "10.0"}, "make_reduce_into(..., compute_capability=[...])"),
])
def test_fix(changed: dict[str, Any], fix: str) -> None:
    assert fix in explained({}, changed)[1]["fix"]


def test_nearest_is_the_one_that_differs_least_and_of_several_the_latest() -> None:
    rows = explained({"d_in dtype": "int8", "d_out dtype": "int8"}, {"determinism": "A"}, {"determinism": "B"},
                     {"determinism": "C"})
    assert [row["nearest_build_id"] for row in rows] == [None, 0, 1, 2]


def test_parts_of_one_operator_count_as_one() -> None:
    rows = explained({"op name": "f", "op code": "x", "op captured n": "int, value 9"},
                     {"d_in dtype": "int8", "d_out dtype": "int8", "h_init dtype": "int8"}, {})
    assert rows[2]["nearest_build_id"] == 0


def test_hits_need_no_reason_and_tell_what_was_there_before() -> None:
    rows = explained({"op name": "plus"}, {"_outcome": "hit"})
    assert rows[0]["reason_code"] == "new_operator_name"
    assert rows[0]["nearest_build_id"] == 1
    assert rows[1]["reason_code"] is None


def test_hit_on_what_was_built_meanwhile_was_not_there_before() -> None:
    rows = explained({"op name": "plus"}, {}, {"_outcome": "hit"})
    assert [row["reason_code"] for row in rows] == ["first_use", "new_operator_name", None]


def test_cleared_caches() -> None:
    rows = explained({}, {"_attributes": '{"clears": 1}'}, {"_attributes": '{"clears": 1}'})
    assert [row["reason_code"] for row in rows] == ["first_use", "cache_cleared", "unknown"]
    assert rows[1]["nearest_build_id"] == 0


def test_wait() -> None:
    assert explained({}, {"_outcome": "wait"})[1]["reason_code"] == "wait"


def test_who_waits_may_have_asked_first() -> None:
    script = Script()
    start = script.now
    parts = json.dumps(BASE)
    script.build(key_parts=parts, outcome="wait", start_ns=start, end_ns=start + 10 * MS)
    script.build(key_parts=parts, outcome="miss", start_ns=start + 1, end_ns=start + 9 * MS)
    codes = [row["reason_code"] for row in explain_builds(script.recording()).rows("builds")]
    assert codes == ["wait", "first_use"]


def test_what_failed_is_not_known_to_be_built() -> None:
    rows = explained({"_outcome": "failed"}, {})
    assert [row["reason_code"] for row in rows] == ["first_use", "first_use"]


def test_algorithms_and_frameworks_are_apart() -> None:
    rows = explained({}, {"_algorithm": "select"}, {"_framework": "other"})
    assert [row["reason_code"] for row in rows] == ["first_use"] * 3


@pytest.mark.parametrize("parts", [None, "", "[]", "{", '"text"'])
def test_unknown_keys(parts: str | None) -> None:
    rows = explained({}, {"_key_parts": parts})
    assert rows[1]["reason_code"] == "unknown"
    assert rows[1]["nearest_build_id"] is None


def test_reason_of_a_probe_is_kept() -> None:
    rows = explained({"_reason_code": "theirs", "_reason": "because"}, {})
    assert (rows[0]["reason_code"], rows[0]["reason"]) == ("theirs", "because")


def test_nothing_to_explain_is_the_same_recording() -> None:
    script = Script()
    assert explain_builds(empty := script.recording()) is empty
    script.build(outcome="hit")
    assert isinstance(once := explain_builds(script.recording()), Recording)
    assert explain_builds(once) is once


def test_differing_parts_are_in_order() -> None:
    assert differing_parts({"a": "1", "b": "2", "c": "3"}, {"b": "2", "c": "4", "d": "5"}) == ("a", "c", "d")


@pytest.mark.parametrize(("name", "kind"), [
    ("compute_capability", "device"), ("d_in dtype", "dtype"), ("op name", "operator name"), ("op code", "operator"),
    ("op captured dtype", "operator value"), ("d_in op name", "operator name"), ("d_in op 2 code", "operator"),
    ("d_in op captured name", "operator value"), ("order", "option"),
])
def test_part_kind(name: str, kind: str) -> None:
    assert part_kind(name, {name: "x"}, {name: "y"}) == kind


def test_the_work_grows_with_hits_and_with_pairs_of_builds_and_no_faster() -> None:
    def work(builds: int, hits: int) -> int:
        script = Script()
        for at in range(builds):
            script.build(key_parts=json.dumps({**BASE, "op code": str(at)}), duration_ns=1000)
        texts = [json.dumps({**BASE, "op code": str(at)}) for at in range(10)]
        for at in range(hits):
            script.build(outcome="hit", key_parts=texts[at % 10], duration_ns=1000)
        recording = script.recording()
        return lines_run(lambda: explain_builds(recording))

    few = work(40, 800)
    assert work(40, 1600) < 2.2 * few
    assert work(80, 800) < 4.4 * few  # each is compared with those before it
