"""Traces of other tools beside each other, and beside recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from foreign_traces import launched, write_json
from handmade import Script

import kernelscope

TESTS = Path(__file__).parents[2]
TRACES, RECORDINGS = TESTS / "importers" / "chrome" / "traces", TESTS.parent / "notebooks" / "recordings"


def test_two_traces_are_compared(cli: Any, tmp_path: Path) -> None:
    """Compiles, which no trace has, are no difference."""
    for name, launches in (("old", 12), ("new", 13)):
        write_json(tmp_path / f"{name}.json", [
            each for at in range(launches) for each in launched("void axpy<float>(int, float*)", 100 * at, at)])
    ended = cli("compare", "old.json", "new.json", "--json", "--fail-on", "new-compiles,more-launches", code=3)
    found = json.loads(ended.stdout)
    assert found["verdict"].startswith("new.json against old.json: 12 → 13 launches")
    kernels = found["sections"]["kernels"]
    assert (kernels["counts"], kernels["changed"][0]["name"]) == ({"changed": 1}, "axpy<float>")
    assert found["totals"]["before"]["compiles"] is found["totals"]["after"]["compile_ns"] is None
    assert [each["condition"] for each in found["fail_on"]["held"]] == ["more-launches"]
    assert sum(found["judged"].values()) > 0


def test_a_trace_and_a_recording_are_compared(cli: Any, tmp_path: Path) -> None:
    """By the names that a reader knows, whatever framework a recording says a kernel is of."""
    old, new = str(TRACES / "kineto_training.json.gz"), str(RECORDINGS / "torch_training.kscope")
    found = json.loads(cli("compare", old, new, "--json", "--limit", "0").stdout)
    both = [row["name"] for row in found["sections"]["kernels"]["changed"] if row["status"] == "changed"]
    assert "vectorized_elementwise_kernel<4, FillFunctor<float>, array<char*, 1ul> >" in both and len(both) == 5
    assert found["differences"] and "compile" not in found["verdict"]
    script = Script()
    script.launchable("axpy")
    script.cell()
    script.launch()
    trace = write_json(tmp_path / "trace.json", launched("axpy", 10, 5))
    for pair in ((trace, script.recording()), (script.recording(), trace)):
        (kernel,) = kernelscope.compare(*pair).changes.section("kernels").rows
        assert (kernel.name, kernel.status, kernel.before[0], kernel.after[0]) == ("axpy", "same", 1, 1)
