"""What tests of the pytest plugin read out of a JSON report."""

from __future__ import annotations

import json
from typing import Any

import pytest


def report_of(pytester: pytest.Pytester, name: str = "report.json") -> dict[str, Any]:
    return json.loads((pytester.path / name).read_text(encoding="utf-8"))


def by_name(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {test["nodeid"].rpartition("::")[2]: test for test in report["tests"]}
