"""The hooks on nvtx: undone exactly, other wrappers, versions and tools; ranges in files."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nvtx
import pytest
from nvtx_ranges import FUNCTIONS, HELD, shown

import kernelscope


def test_undo_is_exact() -> None:
    module: Any = sys.modules["nvtx.nvtx"]
    owners = [nvtx, module, nvtx.annotate, module.Domain, module.DummyDomain]

    def state() -> list[Any]:
        attributes = [dict(vars(owner)) for owner in owners]
        functions = [vars(module)[name] for name in FUNCTIONS] + [
            vars(nvtx.annotate)[name] for name in ("__enter__", "__exit__", "__call__")]
        return [attributes, [(each.__code__, each.__defaults__, each.__kwdefaults__) for each in functions]]

    before = state()
    with kernelscope.record():
        assert state() != before
    assert state() == before


def test_another_wrapper_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = sys.modules["nvtx.nvtx"]
    monkeypatch.setattr(module.DummyDomain, "push_range", module.DummyDomain.push_range)  # what is put back
    with kernelscope.record():
        ours = module.DummyDomain.push_range
        monkeypatch.setattr(module.DummyDomain, "push_range", lambda *args, **keywords: ours(*args, **keywords))
    HELD.push_range(message="later")
    with kernelscope.record() as r:
        HELD.push_range(message="once")
        HELD.pop_range()
    assert shown(r.recording, "name") == [("once",)]


def test_a_wrapper_that_is_taken_off_after_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = sys.modules["nvtx.nvtx"]
    own = module.libnvtx_push_range
    monkeypatch.setattr(module, "libnvtx_push_range", own)  # what is put back
    for _ in range(3):
        with kernelscope.record():
            ours = module.libnvtx_push_range
            module.libnvtx_push_range = lambda *args, ours=ours: ours(*args)
        module.libnvtx_push_range = ours
        with kernelscope.record():
            pass
        assert module.libnvtx_push_range is own


def test_annotate_is_nvtx_s_own() -> None:
    assert kernelscope.annotate is nvtx.annotate
    with kernelscope.record() as r:
        made = pickle.loads(pickle.dumps(kernelscope.annotate("a", domain="d")))
        with made:
            pass
    assert shown(r.recording, "name", "domain") == [("a", "d")]


def test_unknown_nvtx_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["nvtx.nvtx"], "pop_range", lambda other=None: None)
    sys.modules["nvtx.nvtx"].pop_range.__module__ = "nvtx.nvtx"  # type: ignore[attr-defined]
    with kernelscope.record() as r, nvtx.annotate("a"):
        pass
    row = next(row for row in r.recording.rows("health") if row["probe"] == "nvtx")
    assert row["status"] == "unavailable"
    assert "pop_range takes (other), not (domain)" in row["message"]
    assert r.recording.rows("ranges") == []


def test_cost_is_stated() -> None:
    with kernelscope.record() as r, nvtx.annotate("a"):
        nvtx.mark("b")
    row = next(row for row in r.recording.rows("health") if row["probe"] == "nvtx")
    assert row["message"].startswith("estimated: ")
    assert row["total_cost_ns"] > 0


def test_ranges_in_a_file(tmp_path: Path) -> None:
    with kernelscope.record() as r, nvtx.annotate("a", domain="d", payload=1):
        nvtx.push_range("open")
    nvtx.pop_range()
    loaded = kernelscope.load(r.recording.save(tmp_path / "r.kscope"))
    assert loaded.rows("ranges") == r.recording.rows("ranges")
    assert list(loaded.ranges.name) == ["a", "open"]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_nvtx_switched_off(run_python: Run) -> None:
    run = run_python("""
import kernelscope, nvtx
with kernelscope.record() as r, nvtx.annotate("a"):
    nvtx.push_range("b")
print(len(r.recording.rows("ranges")), [row["fix"] for row in r.recording.rows("health")])
""", NVTX_DISABLE="1")
    assert run.stdout.strip() == "0 ['unset NVTX_DISABLE']"


def test_with_a_tool_attached(run_python: Run, tmp_path: Path) -> None:
    source, library = tmp_path / "tool.c", tmp_path / "tool.so"
    source.write_text("int InitializeInjectionNvtx2(void *table) { return 1; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    run = run_python("""
import nvtx
early = nvtx.annotate("early", domain="d", category="c", color="red")(lambda: 1)
import kernelscope
domain = nvtx.get_domain("d")
assert type(domain).__name__ == "Domain"
with kernelscope.record() as r:
    assert nvtx.get_domain("d") is domain
    late = nvtx.annotate("late")(lambda: 2)
    assert (early(), late()) == (1, 2)
    with nvtx.annotate("block", payload=1):
        nvtx.push_range("push")
        nvtx.pop_range()
    number, handle = nvtx.start_range("start")
    assert number == 0 and type(handle).__name__ == "DomainHandle"
    nvtx.end_range((number, handle))
    attributes = domain.get_event_attributes("attributes", category="c")
    domain.push_range(attributes)
    domain.pop_range()
    assert domain.start_range(message="from domain") == 0
    domain.end_range(0)
    nvtx.mark("mark")
early(); late()
for row in r.recording.rows("ranges"):
    assert row["end_ns"] is not None, row
    print(row["name"], row["domain"], row["category"], row["color"], row["kind"], sep=",")
assert not any(row["errors"] for row in r.recording.rows("health")), r.recording.rows("health")
""", NVTX_INJECTION64_PATH=str(library))
    assert run.stdout.splitlines() == [
        "early,d,1,#ff0000,push_pop", "late,None,None,None,push_pop", "block,None,None,None,push_pop",
        "push,None,None,#0000ff,push_pop", "start,None,None,None,start_end", "attributes,d,c,None,push_pop",
        "from domain,d,None,None,start_end", "mark,None,None,#0000ff,mark"]
