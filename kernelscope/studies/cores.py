"""The processor core on which a study's processes are timed, and whether that is at quiet moments."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kernelscope.studies.statistics import QUIET

#: The share of a round's batches that may be at other moments in a quiet round.
LOUD = 0.25


class CpuNoise:
    """The state of the processor cores during a study.

    All processes are on one core, so that what is compared is timed in the same place. Before each round the process
    that is first looks for a quiet one, and the others follow it there.

    Parameters
    ----------
    cores : collection of int
        Those that processes may be put on; none where they are not put on any.
    """

    def __init__(self, cores: Collection[int]) -> None:
        self._cores = cores
        self._best_ns: dict[str, int] = {}
        self._batches = self._loud = 0
        self.core: int | None = None
        self.moves = 0

    @property
    def is_quiet(self) -> bool:
        """Return whether all but a few batches of this round were at quiet moments."""
        return self._loud <= LOUD * self._batches

    def learn(self, target: str, best_ns: int) -> None:
        """Take what the reference took at best in a process of a target, in nanoseconds."""
        self._best_ns[target] = min(self._best_ns.get(target, best_ns), best_ns)

    def next_round(self) -> None:
        """Begin a round."""
        self._batches = self._loud = 0

    def request(self, target: str, seeks: bool | None = None) -> dict[str, int | None]:
        """Return what a request to a target's process says: the core to be on, and what is quiet enough to stay there.

        Parameters
        ----------
        target : str
            Its label.
        seeks : bool, optional
            Whether the process looks for another core; by default the first of a round does.
        """
        seeks = not self._batches if seeks is None else seeks
        return {"core": self.core, "quiet_ns": self._quiet_ns(target) if seeks else None}

    def took(self, target: str, core: Any, reference_ns: int = 0) -> None:
        """Take from an answer on which core it was, and how long the reference took."""
        if core != self.core and core in self._cores:
            self.moves += self.core is not None
            self.core = core
        limit_ns = self._quiet_ns(target)
        self._batches += 1
        self._loud += limit_ns is not None and reference_ns > limit_ns

    def _quiet_ns(self, target: str) -> int | None:
        best_ns = self._best_ns.get(target)
        return None if best_ns is None else round(QUIET * best_ns)
