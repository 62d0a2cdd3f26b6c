"""Triton's autotuner on the null driver: what it tried, why, and that its launches are told from the program's."""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
import triton
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources

import kernelscope
from kernelscope.analysis.tuning import Tuning, trial_table, tunings
from kernelscope.recording.model import Recording

CONFIGURATIONS = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((16, 1), (32, 1), (32, 2))]


class Bench:
    """A benchmark whose times are given: it calls the kernel three times."""

    def __init__(self, *times: float | BaseException) -> None:
        self.times = times
        self.calls = 0

    def __call__(self, call: Callable[[], None], quantiles: Any) -> Any:
        for _ in range(3):
            call()
        found = self.times[self.calls % len(self.times)]
        self.calls += 1
        if isinstance(found, BaseException):
            raise found
        return [found, found / 2, found * 2]


@pytest.fixture
def tuned(make: Any) -> Any:
    """Return what makes a kernel of `make`'s with an autotuner around it."""
    def made(bench: Any = None, **options: Any) -> Any:
        own = {name: options.pop(name) for name in ("body", "path", "name", "source") if name in options}
        options = {"configs": CONFIGURATIONS, "key": ["n"], **options}
        return triton.autotune(do_bench=bench or Bench(0.3, 0.1, 0.2), **options)(make(**own))

    return made


def recorded(call: Callable[[], Any]) -> Recording:
    with kernelscope.record() as recorder:
        call()
    problems = [row for row in recorder.recording.rows("health") if row["status"] != "ok"]
    assert not problems
    return recorder.recording


def runs_of(call: Callable[[], Any]) -> list[Tuning]:
    return tunings(recorded(call))


def test_runs_have_configurations_times_and_launches(tuned: Any, x: Any) -> None:
    axpy = tuned()

    def launch() -> None:
        for n in (1024, 1024, 1000, 1024):
            axpy[(4,)](x, x, n, 2.0)

    recording = recorded(launch)
    first, second = tunings(recording)
    assert (first.name, first.outcome, dict(first.key)) == (
        "axpy", "miss", {"n": "1024", "x dtype": "float32", "y dtype": "float32"})
    assert [each.label for each in first.trials] == [
        "BLOCK=16 num_warps=1", "BLOCK=32 num_warps=1", "BLOCK=32 num_warps=2"]
    assert [each.ms for each in first.trials] == [0.3, 0.1, 0.2]
    assert first.best is first.trials[1] and first.next_best is first.trials[2]
    assert 0 < first.compile_ns < first.duration_ns and first.compiles == 3 and first.launches == 9
    assert sum(each.compile_ns or 0 for each in first.trials) == first.compile_ns
    assert (first.reason_code, second.reason_code, second.differing) == ("first_use", "new_key", ("n",))
    assert second.reason == "`n` is 1000; the nearest key that was tuned has 1024"
    launches = recording.rows("launches")
    assert [row["build_id"] for row in launches] == [*[0] * 9, None, None, *[1] * 9, None, None]
    real = [recording.rows("specializations")[row["specialization_id"]]["signature"] for row in launches
            if row["build_id"] is None]
    assert all(each.endswith("BLOCK=32") for each in real)
    compiles = recording.rows("compilations")
    assert {row["reason_code"] for row in compiles} == {"autotune"} and {row["fix"] for row in compiles} == {None}
    assert compiles[0]["reason"] == "the autotuner was choosing a configuration for n=1024"
    text = recording.summary()
    assert "4 launches, 18 in autotuning" in text
    assert "axpy autotuned for n=1024" in text and "BLOCK=32 num_warps=1 (100 µs; next 200 µs)" in text


def test_what_fails_and_what_is_pruned(tuned: Any, x: Any) -> None:
    axpy = tuned(Bench(OutOfResources(300_000, 232_448, "shared memory"), 0.2),
                 prune_configs_by={"early_config_prune": lambda configs, named_args, **more: configs[:2]})
    (run,) = runs_of(lambda: axpy[(4,)](x, x, 1024, 2.0))
    assert [each.ms for each in run.trials] == [None, 0.2] and run.best is run.trials[1]
    assert [each.label for each in run.pruned] == ["BLOCK=32 num_warps=2"]
    wrong = tuned(Bench(0.2), source="""
import triton
import triton.language as tl


def axpy(x, y, n, a, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 16, "too small")
    tl.store(y + tl.arange(0, 16), a)
""")
    recording = recorded(lambda: wrong[(4,)](x, x, 1024, 2.0))
    (run,) = tunings(recording)
    assert run.failed == 1 and run.trials[0].ms is None and "too small" in (run.trials[0].error or "")
    assert not recording.rows("launches")[-1]["error"]
    failed = next(row for row in recording.rows("compilations") if row["outcome"] == "failed")
    assert failed["fix"] == "leave this configuration out, or prune it (prune_configs_by)"
    assert "1 failed" in recording.summary()


def test_a_kernel_that_needs_too_much_says_what(tuned: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    axpy = tuned(Bench(0.2))
    called = []

    def pre_hook(arguments: Any, reset_only: bool = False) -> None:
        called.append(reset_only)
        if arguments["BLOCK"] == 16 and not reset_only:
            raise OutOfResources(300_000, 232_448, "shared memory")

    monkeypatch.setattr(axpy, "pre_hook", pre_hook)
    (run,) = runs_of(lambda: axpy[(4,)](x, x, 1024, 2.0))
    assert run.trials[0].error == (
        "OutOfResources: out of resource: shared memory, Required: 300000, Hardware limit: 232448. Reducing block "
        "sizes or `num_stages` may help.")
    assert run.failed == 1 and called


def test_results_on_disk(tuned: Any, x: Any) -> None:
    (first,) = runs_of(lambda: tuned(cache_results=True)[(4,)](x, x, 1024, 2.0))
    bench = Bench(9.0)
    (again,) = runs_of(lambda: tuned(bench, cache_results=True)[(4,)](x, x, 1024, 2.0))
    assert (first.outcome, again.outcome, again.reason_code, bench.calls) == ("miss", "disk", "disk", 0)
    assert first.keeps_results and again.launches == 0
    assert again.best is not None and again.best.label == "BLOCK=32 num_warps=1"
    assert [each.ms for each in again.trials] == [0.3, 0.1, 0.2]


def test_why_again(tuned: Any, x: Any) -> None:
    from kernelscope import dryrun

    axpy = tuned()
    axpy[(4,)](x, x, 1024, 2.0)
    (known,) = runs_of(lambda: axpy[(4,)](x, x, 512, 2.0))
    assert (known.reason_code, known.reason) == ("new_key", "`n` is 512; the nearest key that was tuned has 1024")
    (other,) = runs_of(lambda: axpy[(4,)](x, dryrun.array(4096, "float64"), 512, 2.0))
    assert (other.reason_code, other.differing) == ("new_dtype", ("y dtype",))

    def define_again() -> None:
        for _ in range(2):
            tuned()[(4,)](x, x, 1024, 2.0)

    first, second = runs_of(define_again)
    assert (first.reason_code, second.reason_code) == ("first_use", "redefined")
    assert second.fix is not None and "cache_results=True" in second.fix


def test_fix_for_a_key_that_changes(tuned: Any, x: Any) -> None:
    def launch(axpy: Any, bucket: bool) -> list[Tuning]:
        def call() -> None:
            for n in (1001, 1003, 1005, 1007):
                axpy[(4,)](x, x, n, 2.0, **({"bucket": triton.next_power_of_2(n)} if bucket else {}))

        return runs_of(call)

    _, *again = launch(tuned(), False)
    assert len(again) == 3 and all("triton.next_power_of_2(n)" in (each.fix or "") for each in again)
    more = """
import triton
import triton.language as tl


def axpy(x, y, n, a, bucket, BLOCK: tl.constexpr):
    tl.store(y + tl.arange(0, 16), a)
"""
    assert len(launch(tuned(source=more, key=["bucket"]), True)) == 1
    assert len(launch(tuned(key=[]), False)) == 1


def test_advice_for_a_key_that_changes_and_for_what_was_tuned_before(tuned: Any, x: Any) -> None:
    def launch() -> None:
        axpy = tuned()
        for n in (1001, 1003, 1005, 1007):
            axpy[(4,)](x, x, n, 2.0)

    text = " ".join(recorded(launch).summary().split())
    assert "axpy was autotuned 3 more times for new values of `n` (1003, 1005, 1007)" in text
    assert "leave `n` out of key=[...]" in text and "had been before" not in text
    text = " ".join(recorded(launch).summary().split())
    assert "axpy was autotuned in" in text and "cache_results=True" in text


def test_users_exceptions_pass_and_the_next_launch_tunes_again(tuned: Any, x: Any) -> None:
    axpy = tuned(Bench(0.1, KeyboardInterrupt()))
    plain = tuned(Bench(0.1, KeyboardInterrupt()))

    def launch(kernel: Any) -> BaseException:
        with pytest.raises(KeyboardInterrupt) as raised:
            kernel[(4,)](x, x, 1024, 2.0)
        return raised.value

    expected = launch(plain)

    def both() -> None:
        assert type(launch(axpy)) is type(expected)
        axpy.__dict__["do_bench"] = Bench(0.1)
        axpy[(4,)](x, x, 1024, 2.0)

    recording = recorded(both)
    failed, done = tunings(recording)
    assert (failed.outcome, failed.error, failed.best) == ("failed", "KeyboardInterrupt", None)
    assert (done.outcome, len(done.trials), done.reason_code) == ("miss", 3, "first_use")
    assert [row["build_id"] for row in recording.rows("launches")].count(None) == 1


def test_warm_up_and_single_configurations_are_no_runs(tuned: Any, x: Any) -> None:
    axpy, single = tuned(), tuned(configs=CONFIGURATIONS[:1])

    def call() -> None:
        axpy.warmup(x, x, 1024, 2.0, grid=(1,))
        single[(4,)](x, x, 1024, 2.0)

    recording = recorded(call)
    assert not tunings(recording) and len(recording.launches) == 1
    assert {row["reason_code"] for row in recording.rows("compilations")} != {"autotune"}
    assert tunings(recorded(lambda: axpy[(4,)](x, x, 1024, 2.0)))


def test_everything_is_undone_exactly(tuned: Any, x: Any) -> None:
    names = ("prune_configs", "_bench", "check_disk_cache", "run")

    def state() -> Any:
        held = {name: vars(Autotuner)[name] for name in names} | {"init": vars(OutOfResources)["__init__"]}
        return [(each, each.__code__, each.__defaults__, each.__kwdefaults__, inspect.signature(each))
                for each in held.values()], sorted(vars(Autotuner)), sorted(vars(OutOfResources))

    before, axpy = state(), tuned()
    assert len(runs_of(lambda: axpy[(4,)](x, x, 1024, 2.0))) == 1
    assert state() == before
    axpy[(4,)](x, x, 1000, 2.0)
    assert "OutOf" in repr(OutOfResources(1, 2, "shared memory")) and len(axpy.cache) == 2


def test_an_error_of_ours_harms_nothing(tuned: Any, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelscope.probes.triton import autotune

    def broken(*args: Any) -> Any:
        raise ValueError("ours")

    monkeypatch.setattr(autotune, "_described", broken)
    axpy = tuned()
    with kernelscope.record() as recorder:
        axpy[(4,)](x, x, 1024, 2.0)
    assert axpy.best_config.kwargs == {"BLOCK": 32}
    (row,) = [row for row in recorder.recording.rows("health") if row["probe"] == "triton" and row["errors"]]
    assert "ours" in row["message"] and not tunings(recorder.recording)


def test_heuristics_below_and_threads(make: Any, x: Any) -> None:
    axpy = triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (1, 2)], key=["n"],
                           do_bench=Bench(0.2, 0.1))(triton.heuristics({"BLOCK": lambda given: 32})(make()))
    barrier = threading.Barrier(2)

    def launch(n: int) -> None:
        barrier.wait(timeout=600)
        axpy[(4,)](x, x, n, 2.0)

    def call() -> None:
        axpy[(4,)](x, x, 64, 2.0)
        other = triton.autotune(configs=CONFIGURATIONS, key=["n"], do_bench=Bench(0.2))(make())
        threads = [threading.Thread(target=lambda n=n, kernel=kernel: (
            barrier.wait(timeout=600), kernel[(4,)](x, x, n, 2.0))) for n, kernel in ((128, axpy), (256, other))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    recording = recorded(call)
    found = {each.key["n"]: each for each in tunings(recording)}
    assert {n: len(each.trials) for n, each in found.items()} == {"64": 2, "128": 2, "256": 3}
    assert {n: each.launches for n, each in found.items()} == {"64": 6, "128": 6, "256": 9}
    table = trial_table(recording)
    assert table["is_best"].sum() == 3 and not table["is_pruned"].any()
    assert found["64"].best is not None


def test_a_saved_recording_has_the_runs(tuned: Any, x: Any, tmp_path: Any) -> None:
    recording = recorded(lambda: tuned()[(4,)](x, x, 1024, 2.0))
    loaded = kernelscope.load(recording.save(tmp_path / "tuned.kscope"))
    assert tunings(loaded) == tunings(recording)
    kept = loaded.redacted()
    assert "1024" not in json.dumps([row["key_parts"] for row in kept.rows("builds")])
    assert kept.summary()
