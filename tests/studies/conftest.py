"""Targets whose processes are fakes, for all functions that measure."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_bench
import pytest

from kernelscope.studies import overhead, process


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the processes of a target do, by label; one whose behaviour is an error cannot be prepared."""
    behaviours: dict[str, Any] = {}
    asked: list[Any] = []

    def prepare(target: Any, workspace: Any, **how: Any) -> Any:
        asked.append((target, how))
        assert workspace.path.is_dir()
        behaviours["workspace"] = workspace.path
        how["progress"]("installing things")
        behaviour = behaviours.get(target.label, {})
        if isinstance(behaviour, BaseException):
            raise behaviour
        member = fake_bench.member(tmp_path, target.label, **behaviour)
        return SimpleNamespace(python=member.command, **vars(member))

    monkeypatch.setattr(overhead, "prepare", prepare)
    monkeypatch.setattr(process, "command", lambda command: command)
    behaviours["asked"] = asked
    return behaviours
