"""``--kernelscope-report``: one file for a run, whatever becomes of its tests and whoever runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plugin_reports import by_name, report_of

from kernelscope import load

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("name", ["report.txt", "."])
def test_a_report_of_another_kind_is_a_usage_error(pytester: pytest.Pytester, run_pytest: Any, name: str) -> None:
    pytester.makepyfile("def test_plain(): raise SystemExit('it ran')")
    result = run_pytest("--kernelscope-report", name)
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
# Says at the run's end what the report holds of each test, whatever file it is written to.
TELLS = """
    def pytest_sessionfinish(session):
        report = session.config.pluginmanager.get_plugin("kernelscope-report")
        for test in getattr(report, "tests", ()):
            print("\\nheld:", test["nodeid"].rpartition("::")[2], test["outcome"], test.get("worker"))
"""


def test_the_json_report_has_every_test(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile(MANY)
    result = run_pytest("--kernelscope-report", "new/folder/report.json")
    report = report_of(pytester, "new/folder/report.json")
    tests = by_name(report)
    assert {name: test["outcome"] for name, test in tests.items()} == OUTCOMES
    assert (report["report_version"], report["dry_run"], report["simulator"]) == (2, True, False)
    totals = report["totals"]
    assert (totals["tests"], totals["recorded"], totals["exceeded"], totals["launches"]) == (7, 5, 1, 4)
    assert totals["compiles"] == sum(each["compiles"] for each in totals["reasons"]) == 3
    assert totals["compile_ns"] == sum(each["duration_ns"] for each in totals["reasons"])

    first = tests["test_compiles"]
    assert first["kernels"] == [
        {"kernel": "axpy", "module": "kernels", "launches": 2, "captured": 0, "refused": 0, "specializations": 2,
         "dispatchers": 1}]
    assert {each["outcome"] for each in first["compilations"]} == {"compiled"}
    assert {"reason_code", "reason", "argument", "fix", "signature", "duration_ns"} <= set(first["compilations"][0])
    assert tests["test_limited"]["limits"] == {"max_launches": 0}
    assert tests["test_limited"]["exceeded"] == ["max_launches: 1 launch, at most 0 allowed"]
    assert tests["test_broken"]["recorded"] is tests["test_skipped"]["recorded"] is False
    assert_the_guide_tells_all_keys(report)
    result.stdout.fnmatch_lines([
        "*= kernelscope =*",
        "5 of 7 tests recorded: 4 launches, 3 compiles (*)",
        "most expensive reasons: * in * compile*",
        "limits exceeded by 1 test",
        "dry run: kernels did not execute",
        "written: *report.json",
    ])


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["alone", "xdist"])
def test_the_recording_has_a_cell_for_each_test(
    pytester: pytest.Pytester, run_pytest: Any, workers: tuple[str, ...],
) -> None:
    """A worker's wrong mark is no usage error, with which it would seem to have crashed."""
    wrong = "\n    @pytest.mark.kernelscope(max_compile=1)\n    def test_wrong(): raise SystemExit('it ran')\n"
    pytester.makepyfile(test_many=MANY + wrong * bool(workers))
    pytester.makeconftest(TELLS)
    result = run_pytest("-s", "--kernelscope-report", "report.kscope", *workers)
    recording = load(pytester.path / "report.kscope")
    recorded = {f"test_many.py::{name}" for name in OUTCOMES} - {"test_many.py::test_skipped",
                                                                 "test_many.py::test_broken"}
    assert set(recording.cells.name) == recorded
    assert recording.cells.set_index("name").status["test_many.py::test_expected"] == "error"
    assert len(recording.launches) == 4
    assert recording.is_dry_run and recording.name == "pytest"
    assert str(pytester.path) not in recording.dispatchers.filename.str.cat()
    held = dict(line.split()[1:3] for line in result.outlines if line.startswith("held: "))
    assert held == OUTCOMES | ({"test_wrong": "error"} if workers else {})
    result.stdout.fnmatch_lines_random(["held: test_plain passed gw*" if workers else "held: test_plain passed None"])
    if workers:
        assert all(name.startswith(("gw0 ", "gw1 ")) for name in recording.threads.name)
        result.stdout.fnmatch_lines(["*::test_wrong: @pytest.mark.kernelscope has an unknown limit 'max_compile'; *"])


def test_many_tests_become_one_recording(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("""
        import numpy as np, pytest
        from kernels import launch

        @pytest.mark.parametrize("number", range(70))
        def test_number(number):
            if number % 30 == 0:
                launch(np.float32)
    """)
    run_pytest("-q", "--kernelscope-report", "report.kscope").assert_outcomes(passed=70)
    recording = load(pytester.path / "report.kscope")
    assert len(recording.cells) == 70
    assert recording.launches.cell_id.tolist() == [0, 30, 60]
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


@pytest.mark.slow
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


@pytest.mark.parametrize(("name", "environment"), [
    ("report.json", {}), pytest.param("report.kscope", {"KERNELSCOPE_DRYRUN": "0"}, marks=pytest.mark.slow)])
def test_a_run_whose_collection_failed_says_whether_it_was_dry(
        pytester: pytest.Pytester, run_pytest: Any, name: str, environment: dict[str, str]) -> None:
    pytester.makepyfile("raise RuntimeError('no tests')")
    result = run_pytest("--kernelscope-report", name, **environment)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    said = report_of(pytester)["dry_run"] if name.endswith("json") else load(pytester.path / name).is_dry_run
    assert said is not bool(environment)


def test_collecting_only_writes_nothing(pytester: pytest.Pytester, run_pytest: Any) -> None:
    pytester.makepyfile("def test_plain(): pass")
    run_pytest("--collect-only", "--kernelscope-report", "report.json")
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


def assert_the_guide_tells_all_keys(report: Any) -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs/guides/testing.md").read_text(encoding="utf-8")
    told = {word for row in guide.splitlines() if row.startswith("| `") for word in row.replace("`", " ").split()}
    told = {word.strip(",:;()") for word in told}
    rows = [row for test in report["tests"] for name in ("kernels", "compilations") for row in test.get(name, ())]
    assert rows
    for held in (report, report["totals"], report["totals"]["reasons"][0], *report["tests"], *rows):
        assert set(held) <= told, set(held) - told
