"""Runs of an autotuner: what they tried and chose, why they were needed, and what does not count as launches."""

from __future__ import annotations

import pytest
from handmade import MS, Script

from kernelscope.analysis.activities import correlate
from kernelscope.analysis.builds import by_algorithm, explain_builds
from kernelscope.analysis.compiles import explain
from kernelscope.analysis.launches import by_cell, by_kernel, phase_totals
from kernelscope.analysis.tuning import Tuning, trial_table, tuning_table, tunings
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.views.card.model import Overview


def tuned(*keys: dict[str, str], cells: int = 1) -> Script:
    """A kernel that is tuned for each key, with five launches of the benchmark, and launched twice after that."""
    script = Script()
    for _ in range(cells):
        script.cell(10_000 * MS)
    script.launchable("matmul", framework="triton", module="m")
    for key in keys:
        run = script.tuning(key)
        end = script.now
        script.now = script.rows["builds"][run]["start_ns"] + 1_000
        for _ in range(5):
            script.launch(build_id=run)
        script.now = end
        for _ in range(2):
            script.launch()
    return script


def runs(script: Script) -> list[Tuning]:
    return tunings(explain_builds(script.recording()))


def test_a_run_has_its_configurations_the_chosen_one_and_its_cost() -> None:
    script = tuned()
    script.tuning({"M": "1024", "a dtype": "fp16"}, (0.3, None, 0.1, 0.2), pruned=[{
        "arguments": {"BLOCK": "9"}, "options": {"num_warps": 4, "num_stages": 3}}])
    (run,) = runs(script)
    assert (run.name, run.key_text, run.outcome, run.failed) == ("matmul", "M=1024", "miss", 1)
    assert run.best is not None and run.next_best is not None
    assert (run.best.label, run.best.ms, run.next_best.ms) == ("BLOCK=64 num_warps=4", 0.1, 0.2)
    assert run.trials[1].error == "OutOfResources" and [each.label for each in run.pruned] == ["BLOCK=9 num_warps=4"]
    assert (run.duration_ns, run.compile_ns, run.bench_ns) == (800 * MS, 600 * MS, 200 * MS)
    text = " ".join(script.recording().summary().split())
    assert "matmul autotuned for M=1024, 800 ms: 4 configurations (1 failed, 1 pruned), compiling 600 ms" in text
    assert "best BLOCK=64 num_warps=4 (100 µs; next 200 µs)" in text


def flushed() -> Script:
    """A run whose benchmark fills a large array before each trial, with a kernel and with a memset, and a copy."""
    script = Script()
    script.cell(1_000 * MS)
    script.device()
    script.launchable("matmul", framework="triton")
    fill = script.kernel("vectorized_elementwise_kernel<4, FillFunctor<int> >", framework="driver")
    script.specialization(fill)
    run = script.tuning({"M": "1024"})
    begun, after = script.rows["builds"][run]["start_ns"], script.now
    for at in range(4):
        script.now = begun + (at + 1) * MS
        for kernel, took in ((fill, 80_000), (0, 10_000)):
            launch = script.launch(kernel, specialization=kernel, build_id=run)
            name = script.rows["dispatchers"][kernel]["name"]
            script.activity("kernel", name, took, launch_id=launch, specialization_id=kernel)
    for kind, name, took in (("memset", "memset", 70_000), ("memcpy", "DtoD", 5_000)):
        script.activity(kind, name, took, submit_start_ns=begun + 10 * MS, submit_end_ns=begun + 10 * MS + 100)
    script.now = after
    script.activity("memset", "memset", 90_000, submit_start_ns=after + 1, submit_end_ns=after + 2)  # the program's own
    return script


def test_the_gpus_time_is_split_into_trials_and_cache_flush() -> None:
    recording = explain_builds(flushed().recording())
    (run,) = tunings(recording)
    assert run.gpu is not None
    assert (run.gpu.trials_ns, run.gpu.flush_ns, run.gpu.others_ns) == (40_000, 390_000, 5_000)
    shown = Overview(recording)
    assert shown.gpu is not None and shown.gpu.tuning == run.gpu
    text = " ".join(recording.summary().split())
    assert "435 µs of it in autotuning (390 µs to flush caches)" in text
    assert "on the GPU 40.0 µs trial kernels and 390 µs cache flush and 5.00 µs other work" in text
    assert tuning_table(recording)[["gpu_trials_ns", "gpu_flush_ns"]].iloc[0].tolist() == [40_000, 390_000]


def test_without_the_gpus_side_nothing_is_split() -> None:
    (run,) = runs(tuned({"M": "1"}))
    assert run.gpu is None and "on the GPU" not in tuned({"M": "1"}).recording().summary()


@pytest.mark.parametrize(("key", "code", "reason", "fix"), [
    ({"M": "2048", "N": "1", "a dtype": "fp16"}, "new_key", "`M` is 2048; the nearest key that was tuned has 1024",
     "leave `M` out of key=[...] where one configuration does for all values; or name an argument of its own there, "
     "such as triton.next_power_of_2(M), which changes less often"),
    ({"M": "'relu'", "N": "1", "a dtype": "fp16"}, "new_key", "`M` is 'relu'; the nearest key that was tuned has 1024",
     "leave `M` out of key=[...] where one configuration does for all values"),
    ({"M": "1024", "N": "1", "a dtype": "fp32"}, "new_dtype", "`a` is fp32; the nearest key that was tuned has fp16",
     "keep to one dtype: each key of an autotuner has the dtypes of all arrays"),
    ({"M": "8", "N": "9", "a dtype": "fp32"}, "new_key",
     "`M` is 8, `N` is 9; the nearest key that was tuned has 4096, 2", "leave `M`, `N` out of key=[...]"),
    ({"M": "1024", "N": "1", "a dtype": "fp16"}, "unknown", "the same key was tuned before", None),
])
def test_why_it_ran_again(key: dict[str, str], code: str, reason: str, fix: str | None) -> None:
    script = tuned({"M": "1024", "N": "1", "a dtype": "fp16"}, {"M": "4096", "N": "2", "a dtype": "fp32"}, key)
    run = runs(script)[-1]
    assert run.reason_code == code
    assert run.reason is not None and run.reason.startswith(reason)
    assert (run.fix is None) == (fix is None) and (run.fix or "").startswith(fix or "")


def test_what_was_tuned_before_the_recording_counts() -> None:
    script = tuned()
    script.tuning({"M": "2"}, before=[{"M": "1"}])
    assert runs(script)[0].reason == "`M` is 2; the nearest key that was tuned has 1"


def test_a_definition_that_ran_again_knows_nothing() -> None:
    script = tuned({"M": "1"})
    for source in ("same", "other"):
        script.kernel("matmul", framework="triton", module="m", code_sha256=None if source == "same" else source)
        script.tuning({"M": "1"}, dispatcher=len(script.rows["dispatchers"]) - 1)
    script.kernel("other", framework="triton", module="m")
    script.tuning({"M": "1"}, dispatcher=3)
    first, again, edited, other = runs(script)
    assert [each.reason_code for each in (first, again, edited, other)] == [
        "first_use", "redefined", "redefined", "first_use"]
    assert "cache_results=True" in (again.fix or "") and edited.fix is None and first.fix is None


def test_results_that_are_kept_or_cannot_be_have_no_advice_about_it() -> None:
    script = tuned({"M": "1"})
    for at, more in enumerate(({"cache_results": True}, {"has_pre_hook": True}), 1):
        script.kernel("matmul", framework="triton", module="m")
        script.tuning({"M": "1"}, dispatcher=at, **more)
    assert all("cache_results" not in (each.fix or "") for each in runs(script))


def test_launches_of_benchmarks_are_not_the_programs() -> None:
    script = tuned({"M": "1"}, {"M": "2"})
    script.launch(error="OutOfResources", build_id=1)
    recording = script.recording()
    (kernel,) = by_kernel(recording)
    assert (kernel.launches, kernel.trials, kernel.captured, kernel.errors, kernel.configurations) == (4, 11, 0, 0, 1)
    (cell,) = by_cell(recording)
    assert (cell.launches, cell.errors, cell.memory_hits) == (4, 0, 4)
    assert phase_totals(recording).host_ns == 4 * 10_000
    shown = Overview(recording)
    assert (shown.launches, shown.trials, shown.errors, shown.captured) == (4, 11, 0, 0)
    assert "4 launches, 11 in autotuning" in recording.summary()
    assert not by_algorithm(recording) and "Build caches" not in recording.summary()


def test_kernels_of_benchmarks_are_not_the_programs() -> None:
    script = tuned({"M": "1"})
    for launch in range(7):
        script.activity(launch_id=launch, duration_ns=1_000 if launch < 5 else 40_000)
    shown = Overview(script.recording())
    assert shown.gpu is not None and shown.gpu.kernels == 2 and shown.gpu.joined == 2
    assert shown.gpu.execute is not None and shown.gpu.execute.p50_ns == 40_000
    assert correlate(script.recording())["source"].tolist() == ["trial"] * 5 + ["launch"] * 2


def test_compiles_of_benchmarks_are_the_autotuners() -> None:
    script = tuned({"M": "1"})
    script.compilation(launch_id=0, signature="*fp32, BLOCK=16", specialization_id=0)
    script.compilation(launch_id=6, signature="*fp32, BLOCK=32", specialization_id=0)
    rows = explain(script.recording()).rows("compilations")
    assert [row["reason_code"] == "autotune" for row in rows] == [True, False]
    assert rows[0]["reason"] == "the autotuner was choosing a configuration for M=1" and rows[0]["fix"] is None


def test_compiles_of_benchmarks_are_one_line_of_the_card_for_each_key() -> None:
    script = tuned({"M": "1"}, {"M": "2"})
    for launch, size, outcome in ((0, 16, "compiled"), (1, 32, "compiled"), (2, 64, "compiled"), (7, 16, "compiled"),
                                  (3, 128, "disk"), (4, 256, "disk"), (5, 8, "compiled")):
        script.compilation(launch_id=launch, signature=f"*fp32, BLOCK={size}", specialization_id=0, outcome=outcome)
    text = " ".join(script.recording().summary().split())
    assert text.count("the autotuner was choosing a configuration for M=1") == 2
    assert "matmul compiled 3 times, " in text and "matmul loaded from disk 2 times, " in text
    assert "the autotuner was choosing a configuration for M=2" in text
    page = script.recording()._repr_html_()
    assert all(f"BLOCK={size}" in page for size in (16, 32, 64))


def test_the_first_lines_say_what_was_autotuning() -> None:
    script = tuned({"M": "1"}, {"M": "2"})
    script.rows["threads"] = [{"thread_id": 0, "ident": 1, "name": "MainThread"}]
    for launch in range(5):
        script.activity(launch_id=launch, duration_ns=1_000_000)
    text = " ".join(script.recording().summary().split())
    assert " autotuning matmul twice" in text and "of the time, 5.00 ms of it in autotuning." in text
    assert "launching 2" not in text  # the benchmarks' launches are no launching


def test_tables() -> None:
    script = tuned({"M": "1"}, {"M": "2"})
    recording = explain_builds(script.recording())
    table = recording.by_tuning()
    assert table["best"].tolist() == ["BLOCK=32 num_warps=4"] * 2 and table["launches"].tolist() == [5, 5]
    assert table["reason_code"].tolist() == ["first_use", "new_key"]
    assert trial_table(recording)["is_best"].tolist() == [False, True, False, True]
    empty = Recording({}, {})
    assert len(tuning_table(empty)) == len(trial_table(empty)) == 0


def test_merging_and_selecting_keep_what_is_whose() -> None:
    script = tuned({"M": "1"})
    merged = merge([script.recording(), tuned({"M": "2"}).recording()])
    assert sorted(each.key["M"] for each in tunings(merged)) == ["1", "2"]
    assert [each.launches for each in tunings(merged)] == [5, 5]
    for part in (merged.select(cell=1), merged.select(framework="triton").select(cell=1)):
        (run,) = tunings(part)
        assert run.launches == 5 and Overview(part).launches == 2
    script.rows["threads"] = [{"thread_id": 0, "ident": 1}]
    script.kernel("fill", framework="driver", module="PyTorch")
    script.launch(1, build_id=0)
    part = script.recording().select(framework="driver")
    assert Overview(part).launches == 0 and Overview(part).trials == 1
