"""What is known of the machine, from files as Linux has them, and where they are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelscope.studies import process


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nmodel name\t: Fast(R) 9000\n\nmodel name\t: Fast(R) 9000\n")
    (tmp_path / "proc/stat").write_text("cpu  9 9 9 9 9 9\ncpu0 1 0 1 100 5 0\ncpu1 1 0 1 300 7 0\nintr 5\ncpux 1\n")
    governor = tmp_path / "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor"
    governor.parent.mkdir(parents=True)
    governor.write_text("powersave\n")
    return tmp_path


def test_it_is_described(machine: Path) -> None:
    found = process.describe((1, 0), machine)
    assert found["processor"] == "Fast(R) 9000"
    assert found["governor"] == "powersave"
    assert found["cores"] == os.cpu_count()
    assert found["system"].startswith(os.uname().sysname)
    assert found["load_before"] >= 0


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    found = process.describe((), tmp_path)
    assert found["governor"] is None
    assert found["processor"]


def test_idle_times_are_read(machine: Path) -> None:
    assert process.idle_times(machine) == {0: 105, 1: 307}
    assert process.idle_times(machine / "nowhere") == {}


def test_the_core_that_was_idle_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([{0: 0, 1: 50, 2: 100, 3: 7}, {0: 90, 1: 55, 2: 130, 3: 8}])
    monkeypatch.setattr(process, "usable_cores", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(process, "idle_times", lambda root: next(readings))
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: None)
    assert process.choose_cores() == (2, 1, 3)


def test_only_the_cores_of_one_numa_node_are_chosen(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for node, cores in (("node0", "0-1,8\n"), ("node1", "2-7,9-40\n")):
        folder = machine / "sys/devices/system/node" / node
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cores)
    idle = {core: 0 for core in range(41)}
    for first, chosen in ((1, (1, 8)), (9, (9, *range(40, 25, -1)))):
        readings = iter([idle, {**idle, first: 5}])
        monkeypatch.setattr(process, "usable_cores", lambda: list(range(41)))
        monkeypatch.setattr(process, "idle_times", lambda root, readings=readings: next(readings))
        monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: None)
        assert process.choose_cores(machine) == chosen


def test_the_only_core_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "usable_cores", lambda: [0])
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: None)
    assert process.choose_cores() == (0,)


def test_where_processes_cannot_be_put_on_a_core_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, cores: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    assert process.choose_cores() == ()
    monkeypatch.setattr(process, "usable_cores", list)
    assert process.choose_cores() == ()


def test_asking_leaves_this_process_where_it_may_run() -> None:
    before = os.sched_getaffinity(0)
    assert before.issuperset(process.choose_cores())
    assert os.sched_getaffinity(0) == before
