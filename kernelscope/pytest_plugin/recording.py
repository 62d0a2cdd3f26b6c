"""Records the calls of tests, and fails those that exceed their limits."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelscope.analysis.columns import with_columns
from kernelscope.probes import base
from kernelscope.pytest_plugin.check import entry, exceeded, message, unrecorded
from kernelscope.pytest_plugin.limits import LimitError, Limits, limits_of
from kernelscope.recorder import Recorder
from kernelscope.recording.arrow import table_of_rows
from kernelscope.recording.io import load
from kernelscope.recording.model import Recording
from kernelscope.recording.privacy import shareable

if TYPE_CHECKING:
    from kernelscope.pytest_plugin.report import Report

#: The attribute of a test's report that carries what was recorded to the controller.
ATTRIBUTE = "kernelscope"


@dataclass
class _Attempt:
    """One call of a test under way."""

    recorder: Recorder
    problem: str | None = None


_DATA = pytest.StashKey["dict[str, Any]"]()
_FAILURE = pytest.StashKey[str]()


class CallRecorder:
    """The hooks that record each test's call: registered only where something is to be recorded.

    Parameters
    ----------
    report : Report, optional
        Where an interrupted test's part goes, which pytest makes no report of; not in a worker.
    keeps : str, optional
        The suffix of the report that every test is recorded for; None records tests with limits only.
    is_worker : bool
        Whether pytest-xdist started this process.
    """

    def __init__(self, report: Report | None, keeps: str | None, is_worker: bool) -> None:
        self._report = report
        self._keeps = keeps
        # What leaves the process, also that of a plugin that forks for each test, must be of plain values.
        self._process = None if is_worker else os.getpid()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Fail a test whose mark is wrong; where pytest-xdist does not run the tests, collection has ended already."""
        try:
            limits_of(item)
        except LimitError as problem:
            raise pytest.fail.Exception(str(problem), pytrace=False) from None

    # Innermost: other plugins' work around the call, such as capturing its output, is not recorded.
    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Record the call; if it passed, hold it to its limits."""
        limits = limits_of(item)
        if limits is None and self._keeps is None:
            yield
            return
        # The host's side only: CUPTI, and waiting for the device, would change what the test does.
        attempt = _Attempt(Recorder(item.nodeid, gpu="none", synchronize=False))
        try:
            _begin(attempt, item)
            outcome = yield
        except BaseException:
            _give_up(attempt)
            raise
        try:
            raised: BaseException | None = None if outcome.excinfo is None else outcome.excinfo[1]
            if raised is not None:  # pytest shows its traceback, where our hooks have no place
                base.clean(raised, frozenset(base.hook_codes))
            recording = _end(attempt, raised)
            found: list[str] = []
            if limits is not None and raised is None:
                failure = _failure(attempt, recording, limits, found)
                # A plugin that repeats failed tests finds the kernels compiled: what was too much stays so.
                failure = item.stash.setdefault(_FAILURE, failure) if failure else item.stash.get(_FAILURE, None)
                if failure is not None:
                    _replace(outcome, pytest.fail.Exception(failure, pytrace=False))
            if self._keeps is not None:
                self._keep(item, attempt, recording, limits, found, raised)
        except BaseException as error:  # a Ctrl-C or a timeout here: other plugins' work around the call goes on
            _give_up(attempt)
            _replace(outcome, error)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        """Give the report of a call what was recorded of it."""
        outcome = yield
        if call.when == "call" and _DATA in item.stash:
            setattr(outcome.get_result(), ATTRIBUTE, item.stash[_DATA])
            del item.stash[_DATA]

    def _keep(self, item: pytest.Item, attempt: _Attempt, recording: Recording | None, limits: Limits | None,
              found: list[str], raised: BaseException | None) -> None:
        data: dict[str, Any] = {"recorded": recording is not None, "problem": attempt.problem}
        if recording is not None:
            data |= {"dry_run": recording.is_dry_run, "simulator": recording.is_simulated, **entry(recording)}
            if self._keeps == ".kscope":
                kept = recording if _has_events(recording) else _cell_only(recording)
                data["recording"] = kept if os.getpid() == self._process else _packed(kept)
        if limits is not None:
            data |= {"limits": limits.stated(), "exceeded": found}
        if self._report is not None and isinstance(raised, KeyboardInterrupt | pytest.exit.Exception):
            self._report.add(item.nodeid, "interrupted", data)
        else:
            item.stash[_DATA] = data


def unpacked(part: dict[str, Any]) -> Recording:
    """Return the recording that another process handed over as plain values."""
    if "file" not in part:
        return Recording({"cells": table_of_rows("cells", part["cells"])}, part["metadata"])
    with tempfile.TemporaryDirectory(prefix="kernelscope-") as folder:
        path = Path(folder, "part.kscope")
        path.write_bytes(base64.b64decode(part["file"]))
        return load(path)


def _packed(recording: Recording) -> dict[str, Any]:
    """A recording as plain values for another process, its threads named after this one."""
    if not _has_events(recording):  # as most tests of most runs: a file would be a hundred times as much work
        return {"cells": recording.rows("cells"), "metadata": dict(recording.metadata)}
    worker = os.environ.get("PYTEST_XDIST_WORKER") or f"process {os.getpid()}"
    names = [f"{worker} {row['name'] or ''}".rstrip() for row in recording.rows("threads")]
    with tempfile.TemporaryDirectory(prefix="kernelscope-") as folder:
        path = with_columns(recording, "threads", {"name": names}).save(Path(folder, "part.kscope"), paths=True)
        return {"file": base64.b64encode(path.read_bytes()).decode("ascii")}


def _has_events(recording: Recording) -> bool:
    shown = ("launches", "compilations", "passes", "builds", "graph_events", "ranges")
    return any(recording.arrow(name).num_rows for name in shown)


def _cell_only(recording: Recording) -> Recording:
    return Recording({"cells": recording.arrow("cells")}, recording.metadata)


def _begin(attempt: _Attempt, item: pytest.Item) -> None:
    """Start to record; what KernelScope itself cannot do must not keep the test from running."""
    try:
        attempt.recorder.start()
        attempt.recorder.begin_cell(item.nodeid)
    except Exception as error:
        if base.from_signal_handler(error):  # such as a timeout's
            raise
        attempt.problem = f"could not record: {type(error).__name__}: {error}"


def _give_up(attempt: _Attempt) -> None:
    """Stop where what records was interrupted."""
    if attempt.recorder.is_recording:
        attempt.recorder.stop()


def _end(attempt: _Attempt, raised: BaseException | None) -> Recording | None:
    recorder = attempt.recorder
    if not recorder.is_recording:
        return None
    try:
        try:
            # A skip is no error of the cell.
            recorder.end_cell(None if isinstance(raised, pytest.skip.Exception) else raised)
        finally:
            recording = recorder.stop()
    except Exception as error:
        attempt.problem = f"could not record: {type(error).__name__}: {error}"
        return None
    attempt.problem = attempt.problem or unrecorded(recording)
    return recording


def _failure(attempt: _Attempt, recording: Recording | None, limits: Limits, found: list[str]) -> str | None:
    """Why a test fails that passed by itself; `found` is told the limits that were exceeded."""
    if recording is None or attempt.problem is not None:
        # A check that saw nothing must not pass.
        return f"kernelscope: the limits of this test were not checked: {attempt.problem}"
    excesses = exceeded(recording, limits)
    found += [f"{each.limit}: {each.text}" for each in excesses]
    return message(shareable(recording), excesses) if excesses else None


def _replace(outcome: Any, error: BaseException) -> None:
    """Let the call end with `error`; raised from here, it would keep other plugins from cleaning up."""
    if hasattr(outcome, "force_exception"):
        outcome.force_exception(error)
    else:  # pluggy 1.0, as pytest 7.0 allows
        outcome._excinfo = (type(error), error, error.__traceback__)
