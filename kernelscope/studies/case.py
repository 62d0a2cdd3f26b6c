"""What is measured: a case is one way of launching, declared as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """One way of launching, as source text that the process of a target runs, or as a callable of this process.

    The texts run in one namespace, which has ``cuda`` (``numba.cuda``, or ``numba_cuda_mlir.cuda``), ``np``, and
    ``Unavailable``, an exception whose text says why the case cannot be had in this target.

    Attributes
    ----------
    name : str
        What to call it; unique in a study.
    statement : str
        What one launch is. It is timed many times in a loop.
    setup : str
        What comes before, once in each process: kernels, arrays, launch configurations.
    args : int or None
        How many arguments the kernel gets, where that is what tells cases apart.
    group : str
        Which cases it belongs with: ``empty``, ``arguments``, ``many``, ``signature``, ``configure``, ``stream``,
        ``callbacks``, ``capture``, ``launch-config``, ``graph``, ``recording``, or ``own``.
    against : str or None
        The name of a case that this one is also compared with, in the same target.
    before, after : str
        What comes directly before and after each batch of loops, untimed: begin a capture, end it.
    most_loops : int or None
        The most loops that a batch may have, such as nodes of a capture.
    needs : tuple of str
        Modules that a target must have, besides the framework and NumPy.
    function : callable or None
        In the place of `statement`: a callable of this process, which only this process can measure.
    """

    name: str
    statement: str = ""
    setup: str = ""
    args: int | None = None
    group: str = "own"
    against: str | None = None
    before: str = ""
    after: str = ""
    most_loops: int | None = None
    needs: tuple[str, ...] = ()
    function: Callable[[], Any] | None = None

    @property
    def is_live(self) -> bool:
        """Whether it is a callable of this process."""
        return self.function is not None
