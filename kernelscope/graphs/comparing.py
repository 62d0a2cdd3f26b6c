"""What if these launches were a graph: run them again, capture them, replay them, and compare.

Of a recorded cell that is plainly a loop the launches are those of one round, as the advice on the cell has it. In a
dry run they are captured, and nothing is replayed or compared: no kernel runs there, and the driver does nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import __main__
from kernelscope import dryrun
from kernelscope.analysis.repetition import plain_loop
from kernelscope.analysis.units import counted
from kernelscope.errors import GraphError
from kernelscope.graphs.cells import prepared
from kernelscope.graphs.libraries import numba_module, require_cuda
from kernelscope.graphs.memory import Region, region_of
from kernelscope.graphs.result import Unequal, WhatIf, compare
from kernelscope.graphs.snapshots import Snapshot, synchronize
from kernelscope.graphs.streams import core_stream
from kernelscope.graphs.trial import Captured, Samples, arrays_of, differences, run, timed
from kernelscope.graphs.watching import Obstacle, Step, Watch
from kernelscope.session import Session

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording

#: How many samples each way is timed with, and after how many seconds it must do with fewer.
SAMPLES = 50
LIMIT_S = 10.0
_MOST_LISTED = 3


def whatif(function: Callable[[], Any], *, samples: int = SAMPLES, name: str | None = None) -> WhatIf:
    """Compare the launches that a function makes with one graph of them, those of a loop too.

    The function is called once. Its launches of numba kernels are then repeated by themselves, eagerly and as a graph
    that is captured from them; before each repetition the device arrays that they got are put back to what they were.
    In the end those arrays are as after the one call.

    Parameters
    ----------
    function : callable
        Called without arguments.
    samples : int
        How many times each way is timed, at least 5.
    name : str, optional
        What to call it.

    Returns
    -------
    WhatIf
        Host time, GPU time, and whether the results are equal; in a dry run what was captured.

    Raises
    ------
    GraphError
        It launched nothing, or did something between launches that a graph cannot hold: an allocation, a copy from or
        to the host, waiting for the device. What the function raises passes.
    """
    called = name or str(getattr(function, "__qualname__", repr(function))).rpartition("<locals>.")[2]
    return _measured(function, called, None, None, samples, f"{called} was called once.")


def from_recording(recording: Recording, cell: int | str | None = None, namespace: dict[str, Any] | None = None, *,
                   samples: int = SAMPLES, tell: Callable[[str], None] = print) -> WhatIf:
    """Run a recorded cell's source again, and compare its launches with one graph of them, or a round of its loop.

    Where the cell makes the same launches again and again (20 rounds or more of 2 to 32 launches one after another, as
    the advice on it says), the graph is one of these rounds: the first in which nothing happens that a graph cannot
    hold. Otherwise it is all launches of the cell.

    The source runs once more, in the given namespace, and what it does to variables, files and arrays happens again.
    Then as `whatif`. It is the source that the recording has: use it with recordings that you trust only.

    Parameters
    ----------
    recording : Recording
        Where the cell is.
    cell : int or str, optional
        Its execution count or name; the recording's last cell without one.
    namespace : dict, optional
        The globals to run it in. The notebook's own without one, or those of ``__main__`` outside of IPython.
    samples : int
        How many times each way is timed, at least 5.
    tell : callable
        Called with a line that says what is going to be run.

    Returns
    -------
    WhatIf
        Host time, GPU time, and whether the results are equal; in a dry run what was captured.

    Raises
    ------
    UnknownCellError
        There is no such cell.
    GraphError
        The recording does not have its source; it is not Python alone; it launched kernels of other frameworks; or as
        `whatif`. What the source raises passes.
    """
    names, where = _namespace() if namespace is None else (namespace, "the namespace given")
    source = prepared(recording, cell)
    tell(f"kernelscope: {source.label} is run again, in {where}: what it does to variables, files and arrays happens "
         "again")

    def again() -> None:
        builtins = "__builtins__" in names
        try:
            exec(source.code, names)
        finally:
            if not builtins:
                names.pop("__builtins__", None)

    label = source.label[:1].upper() + source.label[1:]
    said = f"{label} was run again once, in {where}; its arrays are as after that run."
    return _measured(again, source.label, source.code.co_filename, names, samples, said, is_cell=True)


def _measured(function: Callable[[], Any], label: str, filename: str | None, names: Mapping[str, Any] | None,
              samples: int, run_again: str, *, is_cell: bool = False) -> WhatIf:
    if samples < 5:
        raise GraphError(f"samples is {samples}, and must be 5 or more")
    require_cuda()
    numba_module("api").current_context()
    with Snapshot() as before:

        def cover(arrays: tuple[tuple[str, Any], ...]) -> None:
            for _, array in arrays:
                region = region_of(array)
                if region is not None and region.nbytes:
                    before.cover(region.address, region.nbytes)

        with Watch(cover, filename) as watch:
            function()
        part = _part_of(watch, label, is_cell)
        steps = part.steps
        arrays = {region: _called(name, array, names) for region, (name, array) in arrays_of(steps).items()}
        with before.again() as after:
            captured = Captured(steps)
            try:
                found = None if dryrun.is_enabled() else _compared(part, captured, before, after, arrays, samples)
            finally:
                synchronize()
                captured.close()
                after.restore()
    launches = [step for step in steps if step.dispatcher is not None]
    taken = None if found is None else found.samples
    return WhatIf(
        label=label, rounds=part.rounds, launches=len(launches), copies=len(steps) - len(launches),
        nodes=captured.nodes, kernels=tuple(dict.fromkeys(step.name for step in launches)),
        streams=len({step.stream for step in steps}), samples=0 if taken is None else len(taken.eager_host),
        host=None if taken is None else compare(taken.eager_host, taken.graph_host),
        gpu=None if taken is None else compare(taken.eager_gpu, taken.graph_gpu),
        unequal=() if found is None else found.unequal, eager_repeats=found is None or found.repeats,
        arrays=len(arrays), compared_bytes=_bytes(arrays), capture_ns=None if found is None else captured.capture_ns,
        instantiate_ns=None if found is None else captured.instantiate_ns, left_out=part.left_out,
        notes=_notes(watch, part), run_again=run_again, is_dry_run=found is None)


@dataclass(frozen=True)
class _Part:
    """The steps that are compared: all, or one of several rounds. `others` are launches in none of these rounds."""

    steps: list[Step]
    rounds: int | None
    others: int
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class _Found:
    unequal: tuple[Unequal, ...]
    repeats: bool
    samples: Samples


def _compared(part: _Part, captured: Captured, before: Snapshot, after: Snapshot, arrays: Mapping[Region, str],
              samples: int) -> _Found:
    """Launch the graph, compare the arrays with what the same steps leave eagerly, and time both."""
    steps = part.steps
    with ExitStack() as held:
        if part.rounds is not None:
            # What all rounds left is not what one leaves.
            before.restore()
            run(steps)
            synchronize()
            after = held.enter_context(Snapshot())
            for region in arrays:
                after.cover(region.address, region.nbytes)
        before.restore()
        captured.graph.launch(core_stream(steps[0].stream))
        unequal = differences(after, arrays)
        repeats = True
        if unequal:
            before.restore()
            run(steps)
            repeats = not differences(after, arrays)
        return _Found(tuple(unequal), repeats, timed(steps, captured, before, samples, LIMIT_S))


def _part_of(watch: Watch, label: str, is_cell: bool) -> _Part:
    """Choose what is compared; raise what speaks against a graph of it, if anything does."""
    steps = watch.steps
    if watch.problem is not None:
        raise watch.problem
    launches = [place for place, step in enumerate(steps) if step.dispatcher is not None]
    if not launches:
        raise GraphError(f"{label} launched no kernel of numba-cuda in this thread, so that there is nothing to "
                         "capture")
    everywhere = [each for each in watch.obstacles if each.steps_before is None]
    if everywhere:
        _refuse(label, everywhere)
    placed = [each for each in watch.obstacles if each.steps_before is not None]
    loop = plain_loop(_keys([steps[place] for place in launches])) if is_cell else None
    if loop is None:
        first, last, rounds, others = 0, len(steps), None, 0
    else:
        begin, size, rounds = loop
        others = len(launches) - size * rounds
        ends = [*launches, launches[-1] + 1]
        before = [each.steps_before or 0 for each in placed]
        parts = [(ends[at], ends[at + size]) for at in range(begin, begin + size * (rounds - 1) + 1)]
        first, last = next((part for part in parts if not _inside(before, *part)), parts[0])
    inside = [each for each in placed if first < (each.steps_before or 0) < last]
    if inside:
        _refuse(label if rounds is None else f"a round of {label}", inside)
    calls = (f"{each.call} at {each.where}" for each in placed)
    return _Part(steps[first:last], rounds, others, tuple(dict.fromkeys(calls)))


def _keys(steps: Sequence[Step]) -> np.ndarray:
    """A number for each launch, equal for equal ones."""
    numbers: dict[tuple[Any, ...], int] = {}
    return np.array([numbers.setdefault(step.key, len(numbers)) for step in steps], dtype=np.int64)


def _inside(places: Sequence[int], first: int, last: int) -> bool:
    """Whether any of the places, which are in order, is between two others."""
    at = bisect_right(places, first)
    return at < len(places) and places[at] < last


def _refuse(what: str, found: Sequence[Obstacle]) -> None:
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for each in found:
        reasons.setdefault((each.call, each.where), {})[each.what] = None
    said = [f"{call} at {where} {' and '.join(whats)}" for (call, where), whats in reasons.items()]
    more = f"; and {len(said) - _MOST_LISTED} more" if len(said) > _MOST_LISTED else ""
    hint = "" if found[0].steps_before is None else "; that must come before the first launch or after the last"
    raise GraphError(f"{what} cannot be a graph as it is: {'; '.join(said[:_MOST_LISTED])}{more}{hint}")


def _notes(watch: Watch, part: _Part) -> tuple[str, ...]:
    notes: list[str] = []
    for count, which in ((part.others, "outside of the rounds"), (watch.elsewhere, "of other threads")):
        if count:
            notes.append(f"{counted(count, 'launch', 'launches')} {which} {'is' if count == 1 else 'are'} left out.")
    # No time of a dry run is told.
    if Session.active is not None and not dryrun.is_enabled():
        notes.append("A recording was under way: the times contain what it costs.")
    return tuple(notes)


def _called(name: str, array: Any, names: Mapping[str, Any] | None) -> str:
    """An array's variable, where it has one, and which argument it is."""
    fitting = (each for each, value in (names or {}).items() if value is array and not each.startswith("_"))
    variable = next(fitting, None)
    return name if variable is None else f"{variable} ({name})"


def _bytes(arrays: Mapping[Region, str]) -> int:
    return sum(region.nbytes for region in arrays)


def _namespace() -> tuple[dict[str, Any], str]:
    """The notebook's variables, or those of the script, and what to call them."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        return __main__.__dict__, "the namespace of __main__"
    return shell.user_ns, "this notebook's namespace"
