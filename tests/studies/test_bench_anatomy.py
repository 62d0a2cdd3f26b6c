"""The parts of a launch, timed in the process of a target: exactly on a toy, and on the dry run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import toy_launches
from bench_process import Bench
from toy_launches import SOURCE, TAKES, toy

from kernelscope.studies.bench.breakdown import LaunchTimer

STATEMENT = "k[1](1, 2)"
SETUP = """\
@cuda.jit
def empty(a, b):
    pass

a = cuda.device_array(1, np.float32)
held = empty[1, 1]
"""


def taken(statement: str, names: dict[str, Any], clock: toy_launches.Clock, **more: Any) -> LaunchTimer:
    return LaunchTimer(statement, names, "toy", clock=clock, **more)


def net(answer: dict[str, Any]) -> dict[str, float]:
    return {key: value - answer["stamps_ns"][key] for key, value in answer["parts_ns"].items()}


def test_every_part_takes_what_it_takes_and_the_readings_are_taken_off(tmp_path: Path) -> None:
    with toy(tmp_path) as (_, clock, names):
        answer = taken(STATEMENT, names, clock).round(20, seed=1)
    assert net(answer) == pytest.approx(TAKES)
    assert answer["bare_ns"] == pytest.approx(sum(TAKES.values()))
    assert set(answer["stamps_ns"].values()) == {40, 80}  # two readings for the first argument: the loop's start is its


def test_a_launch_without_arguments_has_no_such_part(tmp_path: Path) -> None:
    with toy(tmp_path) as (_, clock, names):
        answer = taken("k[1]()", names, clock).round(5)
    assert list(net(answer)) == [key for key in TAKES if not key.startswith("argument")]


def test_the_functions_have_their_own_code_again_and_no_name_of_ours_is_left(tmp_path: Path) -> None:
    with toy(tmp_path) as (module, clock, names):
        call = module.CUDADispatcher.call.__code__
        launch = vars(module._Kernel)["launch"].__wrapped__.__code__
        before = set(vars(module)), set(names)
        taken(STATEMENT, names, clock).round(5)
        assert module.CUDADispatcher.call.__code__ is call
        assert vars(module._Kernel)["launch"].__wrapped__.__code__ is launch
        assert (set(vars(module)), {*names} - {"__builtins__"}) == before


def test_an_error_of_the_statement_passes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with toy(tmp_path) as (module, clock, names):
        call = module.CUDADispatcher.call.__code__
        names["times"] = iter(range(30))
        anatomy = taken("next(times); k[1](1, 2)", names, clock)
        with pytest.raises(StopIteration):
            anatomy.round(5)
        assert module.CUDADispatcher.call.__code__ is call
        assert not [name for name in names if name.startswith("_kernelscope")]


def test_without_the_loop_over_arguments_its_time_is_other_and_the_reason_is_said(tmp_path: Path) -> None:
    changed = SOURCE.replace("for index, (t, v) in enumerate(zip(self.argument_types, args)):\n            self",
                             "[self").replace("(index, kernelargs)\n        config",
                                              "(index, kernelargs) for index in range(len(args))]\n        config")
    assert changed != SOURCE
    with toy(tmp_path, changed) as (_, clock, names):
        anatomy = taken(STATEMENT, names, clock)
        answer = anatomy.round(5)
    assert net(answer)["other"] == pytest.approx(500 + 1000 + 1500 + 700)
    reasons = {part["key"]: part["reason"] for part in anatomy.parts if part["reason"]}
    assert set(reasons) == {"set-up", "arguments", "configuration object"}
    assert reasons["arguments"] == "_Kernel.launch has not one loop that calls _prepare_args"
    assert sum(net(answer).values()) == pytest.approx(answer["bare_ns"])


def test_without_a_driver_call_that_is_known_the_rest_is_other(tmp_path: Path) -> None:
    changed = SOURCE.replace("        launch(0,", "        give(0,").replace("def launch(stream", "def give(stream")
    with toy(tmp_path, changed) as (_, clock, names):
        answer = taken(STATEMENT, names, clock).round(5)
    assert net(answer)["other"] == pytest.approx(700 + 900 + 200)


def test_a_version_without_the_classes_is_configure_to_finish_in_one(tmp_path: Path) -> None:
    changed = SOURCE.replace("CUDADispatcher", "Dispatcher").replace("class _Kernel", "class Kernel").replace(
        "_Kernel()", "Kernel()")
    with toy(tmp_path, changed + "\nclass CUDADispatcher(Dispatcher): pass\n") as (_, clock, names):
        anatomy = taken(STATEMENT, names, clock)
        answer = anatomy.round(5)
    assert net(answer) == pytest.approx({"other": sum(TAKES.values())})
    assert "this version has no CUDADispatcher.call" in {part["reason"] for part in anatomy.parts}


def test_a_configuration_that_is_not_made_is_no_part(tmp_path: Path) -> None:
    changed = SOURCE.replace("config = LaunchConfig(1)", "config = None")
    with toy(tmp_path, changed) as (_, clock, names):
        anatomy = taken(STATEMENT, names, clock)
        answer = anatomy.round(5)
    assert "configuration object" not in net(answer)
    assert {part["reason"] for part in anatomy.parts} == {None, "_Kernel.launch makes none"}


def test_a_statement_that_launches_more_than_once_is_not_taken_apart(tmp_path: Path) -> None:
    with toy(tmp_path) as (_, clock, names):
        anatomy = taken("k[1](1, 2); k[1](1, 2)", names, clock)
        answer = anatomy.round(10)
    assert answer["parts_ns"] == {}
    assert {part["reason"] for part in anatomy.parts} == {
        "the statement launches not once: 20 launches in 10 runs of it"}
    assert answer["bare_ns"] == pytest.approx(2 * sum(TAKES.values()))


def test_what_surrounds_a_batch_runs_around_each_and_is_not_timed(tmp_path: Path) -> None:
    with toy(tmp_path) as (_, clock, names):
        names["clock"], names["seen"] = clock, []
        anatomy = taken(STATEMENT, names, clock, before="clock.now += 10**6; seen.append('before')",
                        after="seen.append('after')", most_loops=4)
        answer = anatomy.round(100)
        assert answer["loops"] == 4
        assert answer["bare_ns"] == pytest.approx(sum(TAKES.values()))
        assert names["seen"][::2] == ["before"] * (len(names["seen"]) // 2)


# ---- In a process of its own ----


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("bench"))
    assert made.hello()["ok"]
    yield made
    made.process.kill()
    made.process.wait()
    made._reader.close()
    made._writer.close()


@pytest.mark.slow
@pytest.mark.parametrize(("statement", "setup", "arguments"), [
    ("empty[1, 1](1, (2.0, a))", "", ["a: int64", "b: Tuple(float64, array(float32, 1d, C))"]),
    ("held(h, h)", "h = np.zeros(4)", ["a: array(float64, 1d, C)", "b: array(float64, 1d, C)"]),
    ("none()", "@cuda.jit\ndef none():\n    pass\nnone = none[1, 1]", []),
])
def test_launches_of_numba_cuda_are_taken_apart_whatever_their_arguments(bench: Bench, statement: str, setup: str,
                                                                        arguments: list[str]) -> None:
    case = {"name": statement, "statement": statement, "setup": f"{SETUP}\n{setup}"}
    answer = bench.must("anatomy", case=case, loops=5)
    assert [part["note"] for part in answer["parts"] if part["key"].startswith("argument")] == arguments
    assert [part["reason"] for part in answer["parts"]] == [None] * len(answer["parts"])
    keys = [part["key"] for part in answer["parts"] if not part["key"].startswith("argument")]
    assert keys == ["configure", "dispatch", "set-up", "configuration object", "submit", "finish"]
    parts = net(answer)
    assert all(parts[key] > 0 for key in ("dispatch", "set-up", "submit"))


def test_a_launch_that_depends_on_its_configuration_is_taken_apart(bench: Bench) -> None:
    setup = SETUP + "empty._launch_config_sensitive = True\nempty[1, 1](a, a)\nempty[2, 1](a, a)\n"
    case = {"name": "sensitive", "statement": "empty[2, 1](a, a)", "setup": setup}
    answer = bench.must("anatomy", case=case, loops=5)
    assert net(answer)["dispatch"] > 0
    assert [part["reason"] for part in answer["parts"]] == [None] * len(answer["parts"])


def test_what_launches_nothing_has_no_parts_but_their_reasons(bench: Bench) -> None:
    answer = bench.must("anatomy", case={"name": "nothing", "statement": "len([])"}, loops=20)
    assert answer["bare_ns"] > 0
    assert answer["parts_ns"] == {}
    assert "the statement launches not once: no launch in 20 runs of it" in {
        part["reason"] for part in answer["parts"]}
