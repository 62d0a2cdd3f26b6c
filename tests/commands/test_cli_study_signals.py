"""`kernelscope study` where its process is told to end."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from stand_in_studies import Studies

from kernelscope import studies
from kernelscope.commands.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_a_job_is_an_interruption(asked: Studies, monkeypatch: pytest.MonkeyPatch, capsys: Captured,
                                            number: signal.Signals) -> None:
    def measure(*targets: Any, **options: Any) -> Any:
        signal.raise_signal(number)

    monkeypatch.setattr(studies, "launch_overhead", measure)
    # What must not happen is the end of the process that tests run in.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        assert main(["study", "launch"]) == 130
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_hangup_that_is_ignored_stays_so(asked: Studies, capsys: Captured) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert main(["study", "launch"]) == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
