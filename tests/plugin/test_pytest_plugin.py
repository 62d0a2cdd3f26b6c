"""The plugin as its users meet it: pytest on files of tests, with real compiles on the dry run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kernelscope import load

pytest_plugins = ["pytester"]


def report_of(pytester: pytest.Pytester, name: str = "report.json") -> dict[str, Any]:
    return json.loads((pytester.path / name).read_text(encoding="utf-8"))


def by_name(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {test["nodeid"].rpartition("::")[2]: test for test in report["tests"]}


def test_limits_hold_and_failures_print_the_reasons(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("""
        import numpy as np, pytest
        from kernels import axpy, launch, scale

        @pytest.mark.kernelscope(max_compiles=1, max_specializations={"axpy": 1}, max_launches=3)
        def test_within():
            launch(np.float32, np.float32)

        @pytest.mark.kernelscope(max_compiles=0, max_specializations=1, max_launches=1)
        def test_beyond():
            launch(np.float32, np.float64, np.int32)

        @pytest.mark.kernelscope(max_compiles=0)
        def test_warm():
            launch(np.float64)

        @pytest.mark.kernelscope(max_specializations=1)
        def test_two_that_were_there_before():
            launch(np.float32, np.float64)
    """)
    result = run_pytest()
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines([
        "kernelscope: 2 compiles, at most 0 allowed (max_compiles)",
        "kernelscope: axpy has 3 specializations, at most 1 allowed (max_specializations)",
        "kernelscope: 3 launches, at most 1 allowed (max_launches)",
        "*s  compiled by a launch: axpy (array(*",
        "*why: *float*",
        "*new_dtype*",
        "*fix: *",
        "  there before: axpy (array(float32, 1d, C), float64, array(float32, 1d, C))",
        "launches: axpy 3",
        "(dry run: kernels did not execute)",
        "*_ test_two_that_were_there_before _*",
        "kernelscope: axpy has 2 specializations, at most 1 allowed (max_specializations)",
        "  there before: axpy (array(*",
        "FAILED *::test_beyond - Failed: kernelscope: 2 *",
    ])
    assert "Traceback" not in result.stdout.str()
    assert "kernelscope/pytest_plugin" not in result.stdout.str()


def test_what_counts_and_what_does_not(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("""
        import threading, unittest
        import numpy as np, pytest
        import kernelscope
        from kernels import array, axpy, launch, scale
        from numba import cuda
        from numba.core.errors import TypingError

        @pytest.fixture
        def warm():
            launch(np.float32)

        @pytest.mark.kernelscope(max_compiles=0, max_launches=1)
        def test_fixtures_do_not_count(warm):
            launch(np.float32)

        @pytest.mark.kernelscope(max_compiles=0)
        def test_own_failure_stays():
            launch(np.int8)
            assert "own" == "failure"

        @pytest.mark.kernelscope(max_compiles=0)
        def test_skip_stays():
            launch(np.int16)
            pytest.skip("own skip")

        @pytest.mark.xfail(strict=True)
        @pytest.mark.kernelscope(max_compiles=0)
        def test_expected_excess():
            launch(np.int32)

        @pytest.mark.kernelscope(max_compiles=1)
        def test_nested_recorder():
            with kernelscope.record("inside") as r:
                launch(np.int64)
            assert r.recording.compilations.outcome.tolist() == ["compiled"]

        @pytest.mark.kernelscope(max_compiles=0)
        def test_failed_compiles_do_not_count():
            with pytest.raises(TypingError):
                axpy[1, 1](array(), "text", array())

        @pytest.mark.kernelscope(max_compiles=0)
        def test_other_threads_count():
            thread = threading.Thread(target=launch, args=(np.uint8,))
            thread.start()
            thread.join()

        @pytest.mark.kernelscope(max_specializations={"axpy": 1, "test_what_counts_and_what_does_not.local": 9})
        def test_definitions_run_again():
            def make():
                @cuda.jit
                def axpy(x):
                    x[0] = 1
                return axpy
            for _ in range(2):
                make()[1, 1](array())

        @pytest.mark.kernelscope(max_specializations={"scale": 0})
        def test_zero_for_a_kernel_that_must_not_run():
            launch(np.float32)

        @pytest.mark.kernelscope(max_compiles=0)
        @pytest.mark.parametrize("dtype", [np.float32, np.uint16])
        def test_parametrized(dtype):
            launch(dtype)

        @pytest.mark.anyio
        @pytest.mark.kernelscope(max_compiles=0)
        async def test_asynchronous():
            launch(np.uint32)

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.kernelscope(max_compiles=0)
        class TestUnittest(unittest.TestCase):
            def test_method(self):
                launch(np.uint64)

            def test_method_of_own_failure(self):
                launch(np.complex64)
                self.assertEqual("own", "unittest failure")
    """)
    result = run_pytest("--kernelscope-report", "report.json")
    report = report_of(pytester)
    assert {name: (test["outcome"], test["compiles"]) for name, test in by_name(report).items()} == {
        "test_fixtures_do_not_count": ("passed", 0),
        "test_own_failure_stays": ("failed", 1),
        "test_skip_stays": ("skipped", 1),
        "test_expected_excess": ("xfailed", 1),
        "test_nested_recorder": ("passed", 1),
        "test_failed_compiles_do_not_count": ("passed", 0),
        "test_other_threads_count": ("failed", 1),
        "test_definitions_run_again": ("failed", 2),
        "test_zero_for_a_kernel_that_must_not_run": ("passed", 0),
        "test_parametrized[float32]": ("passed", 0),
        "test_parametrized[uint16]": ("failed", 1),
        "test_asynchronous": ("failed", 1),
        "test_method": ("failed", 1),
        "test_method_of_own_failure": ("failed", 1),
    }
    assert by_name(report)["test_failed_compiles_do_not_count"]["failed_compiles"] == 1
    result.stdout.fnmatch_lines_random([
        "E       AssertionError: assert 'own' == 'failure'",
        "E   *AssertionError: 'own' != 'unittest failure'",
        "kernelscope: *make.axpy has 2 specializations of 2 dispatchers, since its*",
        "kernelscope: no kernel 'test_what_counts_and_what_does_not.local' was launched or compiled; seen:",
        "*(array(uint64, 1d, C), float64, array(uint64, 1d, C))",
        "*(array(uint32, 1d, C), float64, array(uint32, 1d, C))",
    ])
    assert result.stdout.str().count("1 compile, at most 0 allowed (max_compiles)") >= 4


def test_the_closest_mark_wins_limit_by_limit(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("""
        import numpy as np, pytest
        from kernels import launch

        pytestmark = pytest.mark.kernelscope(max_compiles=0, max_launches=2)

        def test_module():
            launch(np.float32)

        @pytest.mark.kernelscope(max_compiles=2)
        class TestClass:
            def test_class(self):
                launch(np.float64, np.int32)

            def test_module_still_holds(self):
                launch(np.float64, np.float64, np.float64)

            @pytest.mark.kernelscope(max_launches=None)
            def test_lifted(self):
                launch(np.float64, np.float64, np.float64)
    """)
    result = run_pytest("-v")
    result.stdout.fnmatch_lines([
        "*::test_module FAILED*", "*::test_class PASSED*", "*::test_module_still_holds FAILED*",
        "*::test_lifted PASSED*",
    ])


def test_loads_from_the_disk_cache_are_no_compiles(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("""
        import pytest
        from numba import cuda
        from kernels import array

        @cuda.jit(cache=True)
        def kept(x):
            x[0] = 1

        @pytest.mark.kernelscope(max_compiles=0, max_specializations={"kept": 1})
        def test_cold_or_warm():
            kept[1, 1](array())
    """)
    run_pytest(NUMBA_CACHE_DIR=str(pytester.path / "cache")).assert_outcomes(failed=1)
    result = run_pytest("--kernelscope-report=report.json", NUMBA_CACHE_DIR=str(pytester.path / "cache"))
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 test recorded: 1 launch, 0 compiles, 1 load from disk"])
    assert report_of(pytester)["totals"]["disk_loads"] == 1


NOT_IMPORTED = """
    import sys, pytest

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(session):
        heavy = ("numpy", "pandas", "pyarrow", "numba", "IPython", "cuda", "kernelscope.recorder",
                 "kernelscope.pytest_plugin.recording")
        print("loaded:", [name for name in heavy if name in sys.modules])
        print("plugin:", session.config.pluginmanager.has_plugin("kernelscope"))
        print("hooked:", session.config.pluginmanager.has_plugin("kernelscope-recorder"))
"""


def test_nothing_is_done_unless_asked(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makeconftest(NOT_IMPORTED)
    pytester.makepyfile("def test_plain(): pass")
    result = run_pytest("-s", KERNELSCOPE_DRYRUN="0")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*loaded: []", "plugin: True", "hooked: False"])
    result = run_pytest("-s", "-p", "no:kernelscope", KERNELSCOPE_DRYRUN="0")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*loaded: []", "plugin: False"])


def test_a_package_that_was_imported_before_pytest_is_no_warning(
    pytester: pytest.Pytester, run_pytest: Any, run_python: Any,
) -> None:
    pytester.makepyfile(test_plain="def test_plain(): pass")
    run_pytest("--version")  # sets the environment
    ran = run_python(f"import kernelscope, pytest, sys; sys.exit(pytest.main(['-q', {str(pytester.path)!r}]))",
                     PYTHONPATH=os.environ["PYTHONPATH"])
    assert "1 passed" in ran.stdout


@pytest.mark.parametrize(("mark", "told"), [
    ("max_compile=1", "has an unknown limit 'max_compile'; known: max_compiles, max_specializations, max_launches"),
    ("max_compiles=-1", "max_compiles=-1 is not a count: it takes an int of 0 or more"),
    ("max_specializations={'axpy': 'two'}", "max_specializations={'axpy': 'two'} is not a count: it takes an int*"),
])
def test_a_wrong_mark_is_a_usage_error(pytester: pytest.Pytester, run_pytest: Any, mark: str, told: str) -> None:
    pytester.makepyfile(test_it=f"""
        import pytest

        @pytest.mark.kernelscope({mark})
        def test_wrong(): pass
    """)
    result = run_pytest(KERNELSCOPE_DRYRUN="0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: test_it.py::test_wrong: @pytest.mark.kernelscope {told}".replace("[", "[[]")])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("name", ["report.txt", "report", "."])
def test_a_report_of_another_kind_is_a_usage_error(pytester: pytest.Pytester, run_pytest: Any, name: str) -> None:
    pytester.makepyfile("def test_plain(): raise SystemExit('it ran')")
    result = run_pytest("--kernelscope-report", name, KERNELSCOPE_DRYRUN="0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --kernelscope-report '{name}': a report's name ends in .json or .kscope"])


MANY = """
    import numpy as np, pytest
    from kernels import launch, scale, array

    def test_compiles():
        launch(np.float32, np.float64)

    @pytest.mark.kernelscope(max_launches=0)
    def test_limited():
        scale[1, 1](array())

    def test_plain():
        pass

    @pytest.mark.skip
    def test_skipped():
        pass

    @pytest.mark.xfail
    def test_expected():
        assert False

    @pytest.fixture
    def broken():
        raise RuntimeError("in setup")

    def test_broken(broken):
        pass

    @pytest.fixture
    def torn():
        yield
        raise RuntimeError("in teardown")

    def test_torn(torn):
        launch(np.float32)
"""
OUTCOMES = {"test_compiles": "passed", "test_limited": "failed", "test_plain": "passed", "test_skipped": "skipped",
            "test_expected": "xfailed", "test_broken": "error", "test_torn": "error"}


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_the_json_report_has_every_test(pytester: pytest.Pytester, run_pytest: Any, workers: tuple[str, ...]) -> None:
    pytester.makepyfile(MANY)
    result = run_pytest("--kernelscope-report", "new/folder/report.json", *workers)
    report = report_of(pytester, "new/folder/report.json")
    tests = by_name(report)
    assert {name: test["outcome"] for name, test in tests.items()} == OUTCOMES
    assert (report["report_version"], report["dry_run"], report["simulator"]) == (1, True, False)
    totals = report["totals"]
    assert (totals["tests"], totals["recorded"], totals["exceeded"], totals["launches"]) == (7, 5, 1, 4)
    compiles = 3 if not workers else totals["compiles"]  # two workers compile what one has in memory
    assert totals["compiles"] == compiles >= 3
    assert sum(each["compiles"] for each in totals["reasons"]) == compiles
    assert totals["compile_ns"] == sum(each["duration_ns"] for each in totals["reasons"])

    first = tests["test_compiles"]
    assert first["kernels"] == [
        {"kernel": "axpy", "module": "kernels", "launches": 2, "specializations": 2, "dispatchers": 1}]
    assert {each["outcome"] for each in first["compilations"]} == {"compiled"}
    assert {"reason_code", "reason", "argument", "fix", "signature", "duration_ns"} <= set(first["compilations"][0])
    assert tests["test_limited"]["limits"] == {"max_launches": 0}
    assert tests["test_limited"]["exceeded"] == ["max_launches: 1 launch, at most 0 allowed"]
    assert tests["test_broken"]["recorded"] is tests["test_skipped"]["recorded"] is False
    assert all(("worker" in test) == bool(workers) for test in report["tests"])
    result.stdout.fnmatch_lines([
        "*= kernelscope =*",
        "5 of 7 tests recorded: 4 launches, * compiles (*)",
        "most expensive reasons: * in * compile*",
        "limits exceeded by 1 test",
        "dry run: kernels did not execute",
        "written: *report.json",
    ])


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "xdist"])
def test_the_recording_has_a_cell_for_each_test(
    pytester: pytest.Pytester, run_pytest: Any, workers: tuple[str, ...],
) -> None:
    pytester.makepyfile(test_many=MANY)
    run_pytest("--kernelscope-report", "report.kscope", *workers)
    recording = load(pytester.path / "report.kscope")
    recorded = {f"test_many.py::{name}" for name in OUTCOMES} - {"test_many.py::test_skipped",
                                                                 "test_many.py::test_broken"}
    assert set(recording.cells.name) == recorded
    assert recording.cells.set_index("name").status["test_many.py::test_expected"] == "error"
    assert len(recording.launches) == 4
    assert recording.is_dry_run and recording.name == "pytest"
    if workers:
        assert all(name.startswith(("gw0 ", "gw1 ")) for name in recording.threads.name)
    assert str(pytester.path) not in recording.dispatchers.filename.str.cat()


def test_many_tests_become_one_recording(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("""
        import numpy as np, pytest
        from kernels import launch

        @pytest.mark.parametrize("number", range(150))
        def test_number(number):
            if number % 50 == 0:
                launch(np.float32)
    """)
    run_pytest("-q", "--kernelscope-report", "report.kscope").assert_outcomes(passed=150)
    recording = load(pytester.path / "report.kscope")
    assert len(recording.cells) == 150
    assert recording.launches.cell_id.tolist() == [0, 50, 100]
    assert recording.launches.cache.tolist() == ["compiled", "memory", "memory"]
    assert len(recording.specializations) == 1


def test_an_interrupted_run_writes_what_it_has(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("""
        import numpy as np
        from kernels import launch

        def test_done():
            launch(np.float32)

        def test_interrupted():
            launch(np.float64)
            raise KeyboardInterrupt

        def test_never():
            pass
    """)
    result = run_pytest("--kernelscope-report", "report.json")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert {name: (test["outcome"], test["compiles"]) for name, test in by_name(report_of(pytester)).items()} == {
        "test_done": ("passed", 1), "test_interrupted": ("interrupted", 1)}


def test_a_report_that_cannot_be_written_is_told(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("def test_plain(): pass")
    (pytester.path / "taken").write_text("a file")
    result = run_pytest("--kernelscope-report", "taken/report.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*report.json: not written: *", "*1 passed*"])


def test_with_xdist_a_wrong_mark_fails_its_test_with_the_line(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.kernelscope(max_compile=1)
        def test_wrong():
            raise SystemExit("it ran")

        def test_plain(): pass
    """)
    result = run_pytest("-n1", KERNELSCOPE_DRYRUN="0")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*::test_wrong: @pytest.mark.kernelscope has an unknown limit 'max_compile'; known:*"])


def test_without_a_gpu_and_without_the_dry_run_tests_are_their_own(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("""
        import pytest

        @pytest.mark.kernelscope(max_compiles=1)
        def test_no_cuda():
            pass

        @pytest.mark.kernelscope(max_compiles=1)
        def test_skips():
            from numba import cuda
            if not cuda.is_available():
                pytest.skip("no GPU")

        @pytest.mark.kernelscope(max_compiles=1)
        def test_launches():
            from kernels import array
            array()
    """)
    # A driver without devices is as good as none.
    result = run_pytest("-rs", KERNELSCOPE_DRYRUN="0", CUDA_VISIBLE_DEVICES="-1")
    result.assert_outcomes(passed=1, skipped=1, failed=1)
    result.stdout.fnmatch_lines(["E *Cuda*Error*"])
    assert "kernelscope: " not in result.stdout.str()


def test_a_check_that_could_not_record_does_not_pass(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("""
        import pytest
        from kernels import launch
        import numba_cuda
        import numpy as np

        @pytest.mark.kernelscope(max_compiles=1)
        def test_unseen(monkeypatch):
            monkeypatch.undo()
            launch(np.float32)

        def test_plain():
            launch(np.float32)
    """)
    pytester.makeconftest("""
        import pytest

        @pytest.fixture(autouse=True)
        def old(monkeypatch):
            import numba_cuda
            monkeypatch.setattr(numba_cuda, "__version__", "0.29.0")
    """)
    result = run_pytest("--kernelscope-report", "report.json")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([
        "kernelscope: the limits of this test were not checked: numba-cuda 0.29.0 is too old*",
        "not recorded: numba-cuda 0.29.0 is too old*"])
    assert "too old" in by_name(report_of(pytester))["test_plain"]["problem"]


def test_the_simulator_s_tests_become_one_recording(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("""
        import numpy as np, pytest
        from kernels import launch

        def test_plain(): pass

        @pytest.mark.kernelscope(max_compiles=0, max_specializations={"axpy": 0}, max_launches=1)
        def test_launches():
            launch(np.float32)
    """)
    result = run_pytest("--kernelscope-report", "report.kscope", KERNELSCOPE_DRYRUN="0", NUMBA_ENABLE_CUDASIM="1")
    result.assert_outcomes(passed=2)
    assert load(pytester.path / "report.kscope").is_simulated
    result.stdout.fnmatch_lines(["CUDA simulator: *"])


def test_collecting_only_writes_nothing(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("def test_plain(): pass")
    run_pytest("--collect-only", "--kernelscope-report", "report.json", KERNELSCOPE_DRYRUN="0")
    assert not Path(pytester.path, "report.json").exists()


def test_a_repeated_test_stays_beyond_its_limit(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makeconftest("""
        import pytest
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):  # as plugins do that run failed tests again
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            for attempt in range(2):
                reports = runtestprotocol(item, nextitem=nextitem, log=False)
                for report in reports:
                    if report.failed and attempt == 0:
                        report.outcome = "rerun"
                    item.ihook.pytest_runtest_logreport(report=report)
                item._initrequest()
            return True
    """)
    pytester.makepyfile("""
        import numpy as np, pytest
        from kernels import launch

        @pytest.mark.kernelscope(max_compiles=0)
        def test_warm_at_last():
            launch(np.float32)
    """)
    result = run_pytest("--kernelscope-report", "report.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    attempts = [(test["outcome"], test["compiles"]) for test in report_of(pytester)["tests"]]
    assert attempts == [("rerun", 1), ("failed", 0)]


def test_the_guide_s_keys_are_the_report_s(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile(MANY)
    run_pytest("--kernelscope-report", "report.json", "-n1")
    report = report_of(pytester)
    guide = (Path(__file__).resolve().parents[2] / "docs/guides/recompile-checks.md").read_text(encoding="utf-8")
    told = {word for row in guide.splitlines() if row.startswith("| `") for word in row.replace("`", " ").split()}
    told = {word.strip(",:;()") for word in told}
    rows = [row for test in report["tests"] for name in ("kernels", "compilations") for row in test.get(name, ())]
    assert rows
    for held in (report, report["totals"], report["totals"]["reasons"][0], *report["tests"], *rows):
        assert set(held) <= told, set(held) - told
