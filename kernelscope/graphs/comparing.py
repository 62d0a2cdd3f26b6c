"""What if these launches were a graph: run them again, capture them, replay them, and compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import __main__
from kernelscope import dryrun
from kernelscope.analysis.units import counted
from kernelscope.errors import GraphError
from kernelscope.graphs.cells import prepared
from kernelscope.graphs.libraries import numba_module, require_cuda
from kernelscope.graphs.memory import Region, region_of
from kernelscope.graphs.result import Comparison, WhatIf, compare
from kernelscope.graphs.snapshots import Snapshot, synchronize
from kernelscope.graphs.streams import core_stream
from kernelscope.graphs.trial import Captured, Samples, arrays_of, differences, run, timed
from kernelscope.graphs.watching import Watch
from kernelscope.session import Session

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording

#: How many samples each way is timed with, and after how many seconds it must do with fewer.
SAMPLES = 50
LIMIT_S = 10.0
_MOST_LISTED = 3


def whatif(function: Callable[[], Any], *, samples: int = SAMPLES, name: str | None = None) -> WhatIf:
    """Compare the launches that a function makes with one graph of them.

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
        Host time, GPU time, and whether the results are equal.

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
    """Run a recorded cell's source again, and compare its launches with one graph of them.

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
        Host time, GPU time, and whether the results are equal.

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
    return _measured(again, source.label, source.code.co_filename, names, samples, said)


def _measured(function: Callable[[], Any], label: str, filename: str | None, names: Mapping[str, Any] | None,
              samples: int, run_again: str) -> WhatIf:
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
        _refuse(watch, label)
        steps = watch.steps
        arrays = {region: _called(name, array, names) for region, (name, array) in arrays_of(steps).items()}
        with before.again() as after:
            captured = Captured(steps)
            try:
                before.restore()
                captured.graph.launch(_stream_of(steps))
                unequal = differences(after, arrays)
                repeats = True
                if unequal:
                    before.restore()
                    run(steps)
                    repeats = not differences(after, arrays)
                taken = timed(steps, captured, before, samples, LIMIT_S)
            finally:
                synchronize()
                captured.close()
                after.restore()
    launches = [step for step in steps if step.dispatcher is not None]
    dry = dryrun.is_enabled()
    return WhatIf(
        label=label, launches=len(launches), copies=len(steps) - len(launches),
        kernels=tuple(dict.fromkeys(step.name for step in launches)), streams=len({step.stream for step in steps}),
        samples=len(taken.eager_host), host=compare(taken.eager_host, taken.graph_host), gpu=_gpu(taken, dry),
        unequal=tuple(unequal), eager_repeats=repeats, arrays=len(arrays), compared_bytes=_bytes(arrays),
        capture_ns=captured.capture_ns, instantiate_ns=captured.instantiate_ns, left_out=_left_out(watch),
        notes=_notes(watch), run_again=run_again, is_dry_run=dry)


def _refuse(watch: Watch, label: str) -> None:
    """Raise what speaks against a graph, if anything does."""
    if watch.problem is not None:
        raise watch.problem
    if not any(step.dispatcher is not None for step in watch.steps):
        raise GraphError(f"{label} launched no kernel of numba-cuda in this thread, so that there is nothing to "
                         "capture")
    found = [each for each in watch.obstacles if each.steps_before is None or 0 < each.steps_before < len(watch.steps)]
    if not found:
        return
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for each in found:
        reasons.setdefault((each.call, each.where), {})[each.what] = None
    said = [f"{call} at {where} {' and '.join(whats)}" for (call, where), whats in reasons.items()]
    more = f"; and {len(said) - _MOST_LISTED} more" if len(said) > _MOST_LISTED else ""
    hint = "" if found[0].steps_before is None else "; that must come before the first launch or after the last"
    raise GraphError(f"{label} cannot be a graph as it is: {'; '.join(said[:_MOST_LISTED])}{more}{hint}")


def _left_out(watch: Watch) -> tuple[str, ...]:
    """What came before the first step and after the last, each call once."""
    calls = (f"{each.call} at {each.where}" for each in watch.obstacles if each.steps_before is not None)
    return tuple(dict.fromkeys(calls))


def _notes(watch: Watch) -> tuple[str, ...]:
    notes: list[str] = []
    if watch.elsewhere:
        are = "is" if watch.elsewhere == 1 else "are"
        notes.append(f"{counted(watch.elsewhere, 'launch', 'launches')} of other threads {are} left out.")
    if Session.active is not None:
        notes.append("A recording was under way: the times contain what it costs.")
    return tuple(notes)


def _called(name: str, array: Any, names: Mapping[str, Any] | None) -> str:
    """An array's variable, where it has one, and which argument it is."""
    fitting = (each for each, value in (names or {}).items() if value is array and not each.startswith("_"))
    variable = next(fitting, None)
    return name if variable is None else f"{variable} ({name})"


def _gpu(taken: Samples, dry: bool) -> Comparison | None:
    return None if dry else compare(taken.eager_gpu, taken.graph_gpu)


def _bytes(arrays: Mapping[Region, str]) -> int:
    return sum(region.nbytes for region in arrays)


def _stream_of(steps: list[Any]) -> Any:
    return core_stream(steps[0].stream)


def _namespace() -> tuple[dict[str, Any], str]:
    """The notebook's variables, or those of the script, and what to call them."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        return __main__.__dict__, "the namespace of __main__"
    return shell.user_ns, "this notebook's namespace"
