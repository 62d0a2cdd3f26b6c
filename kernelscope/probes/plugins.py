"""Probes of other packages: the entry-point group ``kernelscope.probes``."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Collection
from typing import Any

from kernelscope.probes.base import Probe

GROUP = "kernelscope.probes"
_METHODS = ("install", "uninstall", "synchronize", "describe", "attach", "cost_per_launch_ns")


def plugin_probes(taken: Collection[str]) -> tuple[list[Probe], list[dict[str, Any]]]:
    """Return a new probe for each entry point, and rows of ``health`` for those that gave none.

    An entry point names a class, or a function without arguments, that makes the probe. The packages that are
    installed are looked through once a process.

    Parameters
    ----------
    taken : collection of str
        Names of the probes that there are already; another one of such a name is refused.
    """
    probes: list[Probe] = []
    problems: list[dict[str, Any]] = []
    for entry in _entries():
        try:
            probe = _made(entry.load())
            if probe.name in {*taken, *(each.name for each in probes)}:
                raise ValueError(f"there is a probe called {probe.name!r} already")
        except Exception as problem:
            where = entry.dist.name if entry.dist is not None else entry.value
            problems.append({"probe": entry.name, "status": "unavailable",
                             "message": f"the probe of {where} is left out: {type(problem).__name__}: {problem}",
                             "fix": f"pip install --upgrade {where}, or uninstall it"})
        else:
            probes.append(probe)
    return probes, problems


def _made(maker: Callable[[], Any]) -> Probe:
    probe = maker()
    missing = [name for name in _METHODS if not callable(getattr(probe, name, None))]
    if not isinstance(getattr(probe, "name", None), str):
        missing.insert(0, "name")
    if missing:
        raise TypeError(f"{type(probe).__name__} has no {', no '.join(missing)}")
    return probe


@functools.cache
def _entries() -> tuple[importlib.metadata.EntryPoint, ...]:
    return tuple(sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)))
