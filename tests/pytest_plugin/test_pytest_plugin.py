"""The plugin as its users meet it: pytest on files of tests, with real compiles on the dry run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from numba.cuda.core import config
from plugin_reports import by_name, report_of

from kernelscope.recorder.recorder import Recorder
from kernelscope.recorder.session import Session

pytest_plugins = ["pytester"]


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
        "*s  compiled by a launch*: axpy (array(*",
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
        "* compiled by a launch*: axpy (array(uint64, *",
        "* compiled by a launch*: axpy (array(uint32, *",
    ])
    assert result.stdout.str().count("1 compile, at most 0 allowed (max_compiles)") >= 4


def test_loads_from_the_disk_cache_are_no_compiles(pytester: pytest.Pytester, run_pytest: Any,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setattr(config, "CACHE_DIR", str(pytester.path / "cache"))
    run_pytest().assert_outcomes(failed=1)
    result = run_pytest("--kernelscope-report=report.json")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 test recorded: 1 launch, 0 compiles, 1 load from disk"])
    assert report_of(pytester)["totals"]["disk_loads"] == 1


NOT_IMPORTED = """
    import sys, pytest

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(session):
        heavy = ("numpy", "pandas", "pyarrow", "numba", "IPython", "cuda", "kernelscope.recorder.recorder",
                 "kernelscope.pytest_plugin.checks")
        print("loaded:", [name for name in heavy if name in sys.modules])
        print("plugin:", session.config.pluginmanager.has_plugin("kernelscope"))
        print("hooked:", session.config.pluginmanager.has_plugin("kernelscope-recorder"))
"""


@pytest.mark.slow
def test_nothing_is_done_unless_asked(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makeconftest(NOT_IMPORTED)
    pytester.makepyfile("def test_plain(): pass")
    result = run_pytest("-s", KERNELSCOPE_DRYRUN="0")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*loaded: []", "plugin: True", "hooked: False"])
    result = run_pytest("-s", "-p", "no:kernelscope", KERNELSCOPE_DRYRUN="0")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*loaded: []", "plugin: False"])


@pytest.mark.slow
def test_a_package_that_was_imported_before_pytest_is_no_warning(tmp_path: Path, run_python: Any) -> None:
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass")
    ran = run_python("import kernelscope, pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider']))")
    assert "1 passed" in ran.stdout


def test_a_wrong_mark_is_a_usage_error(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile(test_it="""
        import pytest

        @pytest.mark.kernelscope(max_compile=1)
        def test_wrong(): pass
    """)
    result = run_pytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: test_it.py::test_wrong: @pytest.mark.kernelscope has an unknown limit "
                                 "'max_compile'; known: max_compiles, *; did you mean 'max_compiles'?"])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


@pytest.mark.slow
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


@pytest.mark.slow
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
    result = run_pytest("--kernelscope-report", "report.json", KERNELSCOPE_DRYRUN="1")  # here it was hooked before
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([
        "kernelscope: the limits of this test were not checked: numba-cuda 0.29.0 is too old*",
        "not recorded: numba-cuda 0.29.0 is too old*"])
    assert "too old" in by_name(report_of(pytester))["test_plain"]["problem"]


@pytest.mark.parametrize("name", ["start", "begin_cell", "end_cell", "stop"])
def test_a_run_that_is_interrupted_where_recording_starts_or_stops_leaves_none(
    pytester: pytest.Pytester, run_pytest: Any, monkeypatch: pytest.MonkeyPatch, name: str,
) -> None:
    """In a process that goes on, as a notebook that calls pytest."""
    own = getattr(Recorder, name)

    def first(self: Recorder, *given: Any, **named: Any) -> None:
        monkeypatch.setattr(Recorder, name, own)
        if name == "start":
            own(self)  # it has begun when the signal comes
        raise KeyboardInterrupt

    pytester.makepyfile("def test_it(): pass")
    monkeypatch.setattr(Recorder, name, first)
    assert run_pytest("--kernelscope-report", "report.json").ret == pytest.ExitCode.INTERRUPTED
    assert getattr(Recorder, name) is own and Session.active is None


def test_the_traceback_of_a_test_s_own_error_is_the_user_s(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("""
        import numpy as np, pytest
        from numba import cuda

        @cuda.jit
        def untypable(x):
            x.no_such_method()

        @pytest.mark.kernelscope(max_compiles=1)
        def test_it():
            untypable[1, 32](np.zeros(4))
    """)
    result = run_pytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*untypable[[]1, 32[]](np.zeros(4))", "E *TypingError*"])
    shown = result.stdout.str()
    assert "_hand_over" not in shown and "probes/numba_cuda" not in shown, "our hooks' frames"
