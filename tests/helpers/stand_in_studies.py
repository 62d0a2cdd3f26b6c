"""Functions in the place of those of `kernelscope.studies` that take minutes: they keep what they were asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from handmade_studies import dry_run

from kernelscope import studies
from kernelscope.studies.result import StudyResult


class Interrupted(KeyboardInterrupt):
    """What an interrupted study raises: with its part of a result."""

    def __init__(self, result: StudyResult | None) -> None:
        super().__init__("a part was measured" if result else "nothing was measured")
        self.result = result


@dataclass
class Studies:
    """What was asked for, and what is answered.

    Attributes
    ----------
    result : StudyResult
        What each function returns.
    raised : BaseException, optional
        What each raises instead.
    asked : list
        The name of each function that was called, with its arguments.
    """

    result: StudyResult = field(default_factory=lambda: StudyResult(dry_run(processes=6)))
    raised: BaseException | None = None
    asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of the last call."""
        return self.asked[-1][2]

    def interrupt(self, *, is_early: bool = False) -> None:
        """Let the next study be interrupted, with what was measured until then."""
        self.result.measured.ended = "interrupted"
        self.raised = Interrupted(None if is_early else self.result)

    def put_in_place(self, patch: pytest.MonkeyPatch) -> None:
        """Take the place of the functions, for as long as the test runs."""
        for name in ("launch_overhead", "against", "anatomy", "suite", "read_benchmarks"):
            patch.setitem(vars(studies), name, self._function(name))

    def _function(self, name: str) -> Any:
        def answer(*arguments: Any, **options: Any) -> StudyResult:
            self.asked.append((name, arguments, options))
            if self.raised is not None:
                raise self.raised
            return self.result

        return answer
