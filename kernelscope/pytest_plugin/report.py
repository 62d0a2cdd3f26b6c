"""``--kernelscope-report``: what every test of a run launched and compiled, as one file, and a few lines about it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kernelscope
from kernelscope import dryrun
from kernelscope.analysis.units import count, counted, duration
from kernelscope.errors import KernelScopeError
from kernelscope.pytest_plugin.recording import ATTRIBUTE, unpacked
from kernelscope.recording.merge import merge
from kernelscope.recording.model import DRY_RUN_NOTICE, SIMULATOR_NOTICE, Recording
from kernelscope.recording.privacy import shareable_values
from kernelscope.renderers.base import clean
from kernelscope.schema import TABLES

#: Raised whenever a key of the JSON report changes its name or its meaning.
REPORT_VERSION = 1

_COUNTS = ("launches", "compiles", "compile_ns", "disk_loads", "waits", "failed_compiles")
_TOP_REASONS = 3
# So many parts become one at a time, so that a long run's parts stay few.
_PARTS_AT_ONCE = 64


class Report:
    """Collects the tests' parts as their reports come in, and writes the file when the run ends.

    Parameters
    ----------
    path : Path
        Where to: ``.json`` or ``.kscope``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: list[dict[str, Any]] = []
        self._last: dict[str, dict[str, Any]] = {}
        self._parts: list[Recording] = []
        self._merged: list[Recording] = []
        self._problem: str | None = None

    def add(self, nodeid: str, outcome: str, data: dict[str, Any] | None, worker: str | None = None) -> None:
        """Take one test's part; `data` is None where its call was not reached."""
        held: dict[str, Any] = {"recorded": False} if data is None else dict(data)
        part = held.pop("recording", None)
        if part is not None:
            self._take(part if isinstance(part, Recording) else unpacked(part))
        row = {"nodeid": nodeid, "outcome": outcome, **({} if worker is None else {"worker": worker}), **held}
        self.tests.append(row)
        self._last[nodeid] = row

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what came with a report, so that no other plugin has to carry it on."""
        data = vars(report).pop(ATTRIBUTE, None)
        worker = getattr(report, "worker_id", None)
        if data is not None:
            self.add(report.nodeid, _outcome(report), data, worker)
        elif report.when == "teardown" and report.failed and report.nodeid in self._last:
            self._last[report.nodeid]["outcome"] = "error"
        elif report.when != "call" and not report.passed:  # A call without data is a subtest of one with it.
            self.add(report.nodeid, _outcome(report), None, worker)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file: also of a run that was interrupted, as far as it came."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._write()
        except (KernelScopeError, OSError, ValueError) as error:
            self._problem = f"not written: {error}"
            if not session.exitstatus:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a few lines: what was recorded, what compiled and mostly why, and where the file is."""
        terminalreporter.section("kernelscope")
        for line in self.lines():
            terminalreporter.line(line)
        if self._problem is not None:
            terminalreporter.line(clean(f"{self.path}: {self._problem}"), red=True)

    def lines(self) -> list[str]:
        """Return the section's lines."""
        totals = self.totals()
        compiles = f"{counted(totals['compiles'], 'compile')}"
        if totals["compiles"]:
            compiles += f" ({duration(totals['compile_ns'])})"
        parts = [counted(totals["launches"], "launch", "launches"), compiles]
        for key, noun in (("disk_loads", "load from disk"), ("failed_compiles", "failed compile")):
            if totals[key]:
                plural = "loads from disk" if key == "disk_loads" else None
                parts.append(counted(totals[key], noun, plural))
        recorded, tests = totals["recorded"], totals["tests"]
        which = counted(tests, "test") if recorded == tests else f"{count(recorded)} of {counted(tests, 'test')}"
        lines = [f"{which} recorded: {', '.join(parts)}"]
        if totals["reasons"]:
            listed = [f"{each['reason_code']} {duration(each['duration_ns'])} in {counted(each['compiles'], 'compile')}"
                      for each in totals["reasons"][:_TOP_REASONS]]
            lines.append(f"most expensive reasons: {', '.join(listed)}")
        if totals["exceeded"]:
            lines.append(f"limits exceeded by {counted(totals['exceeded'], 'test')}")
        problems = list(dict.fromkeys(test["problem"] for test in self.tests if test.get("problem")))
        lines += [f"not recorded: {clean(problem)}" for problem in problems[:_TOP_REASONS]]
        lines += [notice for is_so, notice in ((self._is_dry_run(), DRY_RUN_NOTICE),
                                               (self._any("simulator"), SIMULATOR_NOTICE)) if is_so]
        if self._problem is None:
            lines.append(f"written: {clean(self.path)}")
        return lines

    def totals(self) -> dict[str, Any]:
        """Return the sums over all tests; ``reasons`` has the compiles by reason code, the most time first."""
        spent, compiles = Counter[str](), Counter[str]()
        for test in self.tests:
            for each in test.get("compilations", ()):
                if each["outcome"] == "compiled":
                    spent[each["reason_code"]] += each["duration_ns"]
                    compiles[each["reason_code"]] += 1
        return {
            "tests": len(self.tests),
            "recorded": sum(bool(test["recorded"]) for test in self.tests),
            "exceeded": sum(bool(test.get("exceeded")) for test in self.tests),
            **{name: sum(test.get(name, 0) for test in self.tests) for name in _COUNTS},
            "reasons": [{"reason_code": code, "compiles": compiles[code], "duration_ns": time}
                        for code, time in spent.most_common()],
        }

    def content(self) -> dict[str, Any]:
        """Return the JSON report, without paths of this machine."""
        return shareable_values({
            "report_version": REPORT_VERSION,
            "kernelscope": kernelscope.__version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "dry_run": self._is_dry_run(),
            "simulator": self._any("simulator"),
            "totals": self.totals(),
            "tests": [{key: value for key, value in test.items() if key not in ("dry_run", "simulator")}
                      for test in self.tests],
        }, ("nodeid",))

    def _is_dry_run(self) -> bool:
        # Where no test was recorded, as after an error of collection, it is this process that says so.
        return self._any("dry_run") or dryrun.is_enabled()

    def _any(self, flag: str) -> bool:
        return any(test.get(flag) for test in self.tests)

    def _take(self, part: Recording) -> None:
        self._parts.append(part)
        if len(self._parts) >= _PARTS_AT_ONCE:
            self._merged.append(_merged(self._parts))
            self._parts.clear()

    def _write(self) -> None:
        if self.path.suffix.lower() == ".json":
            part = self.path.with_name(f"{self.path.name}.part")
            part.write_text(json.dumps(self.content(), indent=1) + "\n", encoding="utf-8")
            part.replace(self.path)
            return
        parts = [*self._merged, *self._parts]
        nothing = Recording({}, {"name": "pytest", "dry_run": self._is_dry_run()})
        (_merged(parts) if parts else nothing).save(self.path)


def _merged(parts: Sequence[Recording]) -> Recording:
    """The parts as one recording; tests that launched nothing are of the kind of the others."""
    flags = {name: any(part.metadata.get(name) for part in parts) for name in ("dry_run", "simulator")}
    alike = [
        part if part.arrow("launches").num_rows or flags.items() <= part.metadata.items()
        else Recording({name: part.arrow(name) for name in TABLES}, {**part.metadata, **flags})
        for part in parts
    ]
    return merge(alike, name="pytest")


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.failed and report.when != "call":
        return "error"
    return report.outcome
