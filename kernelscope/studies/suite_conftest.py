"""Is copied as ``conftest.py`` beside the benchmarks that a target runs: its process needs nothing of KernelScope.

Reads ``suite.json`` beside it, switches the dry run on where that asks for it, and writes what was skipped and what
failed to the file ``outcome.json``. In the syntax of Python 3.9, as targets may be old.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_settings: dict[str, Any] = {}
_outcome: dict[str, dict[str, str]] = {"skipped": {}, "failed": {}}


def pytest_configure(config: Any) -> None:
    """Put the process on its core, and switch the dry run on, before the framework is imported."""
    _settings.update(json.loads((_HERE / "suite.json").read_text(encoding="utf-8")))
    if _settings["core"] is not None:
        with contextlib.suppress(AttributeError, OSError):
            os.sched_setaffinity(0, [_settings["core"]])
    if _settings["dryrun"]:
        sys.path.append(_settings["dryrun"])
        try:
            if _settings["library"]:
                ctypes.CDLL(_settings["library"], mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW)
            importlib.import_module("kernelscope.dryrun").enable()
        finally:
            sys.path.remove(_settings["dryrun"])


def pytest_runtest_logreport(report: Any) -> None:
    """Keep why a benchmark was skipped or failed."""
    if report.skipped:
        where_and_why = report.longrepr
        _outcome["skipped"][report.nodeid] = str(where_and_why[2] if isinstance(where_and_why, tuple) else "skipped")
    elif report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        _outcome["failed"][report.nodeid] = str(getattr(crash, "message", report.longreprtext)).strip()


def pytest_collectreport(report: Any) -> None:
    """Keep why a file of benchmarks could not be collected."""
    if report.failed:
        lines = [line.removeprefix("E ").strip() for line in str(report.longreprtext).splitlines() if line.strip()]
        _outcome["failed"][report.nodeid] = lines[-1] if lines else "cannot be collected"


def pytest_unconfigure(config: Any) -> None:
    """Write it down."""
    (_HERE / "outcome.json").write_text(json.dumps(_outcome), encoding="utf-8")
