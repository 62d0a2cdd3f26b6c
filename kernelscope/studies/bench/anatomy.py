"""The parts of one launch, timed in the process of a target.

A reading of the clock costs as much as a small part of a launch, so that a launch with all boundaries stamped would
not be the launch that is asked about. Therefore a batch of launches has two stamps only: one where a part begins, one
where it ends. Each part has its batches, as has the launch without any stamp, in fresh order in every round. What two
stamps cost is measured in the same places: batches where both stand at the part's beginning. That is taken off. So
that the parts add up to the bare launch is no matter of arithmetic: it is a check, and what is left over is reported.
Arguments are the exception: where each one's turn begins is stamped in the same batch. A stamp in one turn of the loop
and none in the others costs more than itself, because the processor guesses the way through the loop wrong.

The stamps are statements that are put into copies of the framework's own functions (in their syntax trees), which then
lend their code to the functions for a batch. So no wrapper is on the path, and what stands between two boundaries is
what stands there without stamps. Where a boundary is not found in a version's source, the parts beside it are null,
with the reason, and the time between the boundaries that are found is ``other``.

Standard library only; Python 3.9 and later.
"""

from __future__ import annotations

import ast
import copy
import gc
import random
import textwrap
import time
from collections.abc import Callable, Sequence
from itertools import repeat
from types import CodeType
from typing import Any

from . import quiet
from .boundaries import ARGUMENTS, Boundaries
from .launch_path import PATHS, described, statements

# What runs in a batch: the function with the loop, and the codes that the framework's functions borrow meanwhile.
Run = tuple[Callable[..., int], dict[str, CodeType]]
# A batch's time on the host, the cell of the stamps, and the list of stamps.
Batch = tuple[int, tuple[int, ...], tuple[int, ...]]
Times = dict[str, float]

# Names that the stamps use; in the globals of the functions that have some, for as long as a batch takes.
_CELL, _NOW, _SEE = "_kernelscope_cell", "_kernelscope_now", "_kernelscope_see"
_STAMP = "_kernelscope_stamp"
_LOOP = f"""\
def _run(_loops):
    _begin = {_NOW}()
    for _ in _loops:
        pass
    return {_NOW}() - _begin
"""
# [0] is when the part began, 0 outside of one; [1] the sum of its times; [2] how often it was passed.
_BEGIN = "if not {cell}[0]: {cell}[0] = {now}()"
_END = "if {cell}[0]:\n {cell}[1] += {now}() - {cell}[0]\n {cell}[0] = 0\n {cell}[2] += 1"
# A function whose code was swapped is specialized anew by the interpreter, and its callers too.
_WARM_LAUNCHES = 150
# How often each run's batch is repeated, once it is warm. Batches are much shorter than what the system gives another
# process at a time: most of them are undisturbed on a busy core too, and so is their median.
_REPEATS = 12
_BARE_RUNS = 3


def answer(bench: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Time each part of one launch of a case once.

    Parameters
    ----------
    bench : Bench
        The process: its framework and its cases.
    request : dict
        ``case``: the fields of `Case`; ``loops``: how many launches a batch has; ``seed``: of the batches' order;
        ``core`` and ``quiet_ns``, as a batch's request has them.

    Returns
    -------
    dict
        What `Anatomy.round` returns; ``core``, on which it ended; and ``parts``: each with its ``key``, where it begins
        and ends, a ``note``, and the ``reason`` where it cannot be timed.
    """
    fields = request["case"]
    name = str(fields["name"])
    if name not in bench.cases:
        bench.prepare(request)
    case = bench.cases[name]
    taken: dict[int, Anatomy] = bench.__dict__.setdefault("anatomies", {})
    if id(case) not in taken:
        taken[id(case)] = Anatomy(
            fields["statement"], case.names, bench.framework.name, fields.get("before") or "",
            fields.get("after") or "", fields.get("most_loops"), bench.framework.synchronize)
    anatomy = taken[id(case)]
    bench.quiet.go(request.get("core"))
    anatomy.settle = lambda: bench.quiet.seek(bench.quiet.core, request.get("quiet_ns"))
    times = anatomy.round(int(request["loops"]), request.get("seed"))
    return {**times, "core": bench.quiet.core, "parts": anatomy.parts}


class Anatomy:
    """One case's launch, taken apart.

    Parameters
    ----------
    statement : str
        What one launch is.
    namespace : dict
        Where it runs: the case's, after its setup and at least one launch.
    framework : str
        ``numba-cuda`` or ``numba-cuda-mlir``.
    before, after : str
        What runs directly before and after each batch, untimed.
    most_loops : int or None
        The most launches that a batch may have.
    synchronize : callable or None
        Waits for the device; called before and after each batch.
    clock : callable
        Returns nanoseconds.

    Attributes
    ----------
    settle : callable
        Finds a quiet moment before the batches of each kind.
    """

    def __init__(self, statement: str, namespace: dict[str, Any], framework: str, before: str = "", after: str = "",
                 most_loops: int | None = None, synchronize: Callable[[], object] | None = None,
                 clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.namespace = namespace
        self.most_loops = most_loops
        self._clock = clock
        self.settle: Callable[[], object] = lambda: None
        self._cell = [0, 0, 0]
        self._stamps: list[int] = []
        self._synchronize: Callable[[], object] = synchronize or (lambda: None)
        self._before = compile(before, "<before>", "exec") if before.strip() else None
        self._after = compile(after, "<after>", "exec") if after.strip() else None
        self._statement: list[Any] = ast.parse(textwrap.dedent(statement)).body
        self._boundaries = Boundaries(PATHS[framework])
        self._lost: set[str] = set()
        self._boundaries.find(self._look())
        self._runs = self._make_runs()

    def round(self, loops: int, seed: int | None = None) -> dict[str, Any]:
        """Time every part once, in fresh order.

        Parameters
        ----------
        loops : int
            How many launches a batch has.
        seed : int, optional
            For the order.

        Returns
        -------
        dict
            ``bare_ns``: a launch without stamps; ``parts_ns`` and ``stamps_ns``, by the parts' keys: its time with the
            stamps' and the stamps' alone, of one launch.
        """
        if self.most_loops is not None:
            loops = min(loops, self.most_loops)
        order = [("bare", "")] * _BARE_RUNS + [("empty", "")]
        order += [(kind, key) for kind, key in self._runs if kind not in ("bare", "empty") and key not in self._lost]
        random.Random(seed).shuffle(order)
        bare: list[float] = []
        empty = 0.0
        parts: Times = {}
        stamps: Times = {}
        was_enabled = gc.isenabled()
        gc.collect()
        gc.disable()
        try:
            for kind, key in order:
                if key in self._lost and (kind == "part" or not self._boundaries.is_once_a_launch(key)):
                    continue  # the stamps alone still tell how often the statement launches
                batches = self._batches(self._runs[kind, key], loops, _REPEATS)
                if kind == "bare":
                    bare += [host_ns / loops for host_ns, _, _ in batches]
                elif kind == "empty":
                    empty = _median([host_ns / loops for host_ns, _, _ in batches])
                elif key == ARGUMENTS:
                    self._take_turns(batches, loops, kind == "stamps", parts if kind == "part" else stamps)
                else:
                    self._take(key, batches, loops, kind == "stamps", parts if kind == "part" else stamps)
        finally:
            if was_enabled:
                gc.enable()
        alive = [part["key"] for part in self.parts if part["reason"] is None]
        return {"loops": loops, "bare_ns": _median(bare) - empty, "loop_ns": empty,
                "parts_ns": {key: parts[key] for key in alive}, "stamps_ns": {key: stamps[key] for key in alive}}

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The parts of the launch, in order, and those that cannot be seen, each with the ``reason``."""
        return self._boundaries.parts

    def _look(self) -> list[str]:
        """Launch once, and return what the arguments are."""
        seen: list[list[str]] = []
        source = self._boundaries.functions.get("launched")
        if source is not None:
            tree = source.tree()
            tree.body[source.first:source.first] = statements(f"{_SEE}(locals())")
            codes = {"launched": source.compile(tree)}
            self._batches((self._loop(), codes), 1, see=lambda local: seen.append(described(local)))
        return seen[0] if seen else []

    def _lose(self, key: str, reason: str) -> None:
        self._lost.add(key)
        self._boundaries.lose(key, reason)

    def _take(self, key: str, batches: list[Batch], loops: int, together: bool, times: Times) -> None:
        """Enter the time of a part, or of its stamps, of one launch; or find that there is no such time."""
        passed = {cell[2] for _, cell, _ in batches}
        is_once = passed == {loops}
        if together and not is_once and self._boundaries.is_once_a_launch(key):
            launches = "{} launch{}".format(max(passed), "es" * (max(passed) > 1)) if max(passed) else "no launch"
            self._boundaries.lose_all("the statement launches not once: {} in {} run{} of it".format(
                launches, loops, "s" * (loops != 1)))
            self._lost.update([ARGUMENTS, *(part["key"] for part in self.parts)])
        elif is_once or (together and min(passed) > 0):
            # A boundary may be passed twice, as on the way to a dispatcher for one launch configuration; then the
            # stamps were there twice.
            times[key] = _median([total / count for _, (_, total, count), _ in batches])
        else:
            self._lose(key, "passed {} time{} in {} launch{}".format(
                max(passed), "s" * (max(passed) != 1), loops, "es" * (loops != 1)))

    def _take_turns(self, batches: list[Batch], loops: int, together: bool, times: Times) -> None:
        """Enter the times of the arguments, of one launch: a stamp before the loop, in each turn, and behind it."""
        turns = len(self._boundaries.arguments)
        each = (turns + 2) * (2 if together else 1)
        if any(len(stamps) != loops * each for _, _, stamps in batches):
            self._lose(ARGUMENTS, "{} not taken one after the other".format(
                "1 argument was" if turns == 1 else f"{turns} arguments were"))
            return
        sums = [[sum(stamps[at + 1::each]) - sum(stamps[at::each]) for at in range(each - 1)]
                for _, _, stamps in batches]
        between = [_median([batch[at] / loops for batch in sums]) for at in range(each - 1)]
        if together:
            between = between[::2]
        for index in range(turns):
            # What the loop does before the first turn is the first argument's.
            times[f"argument {index}"] = between[index + 1] + (between[0] if index == 0 else 0.0)

    def _make_runs(self) -> dict[tuple[str, str], Run]:
        """Return what runs in each kind of batch: the loop's function, and the code that the functions borrow."""
        runs: dict[tuple[str, str], Run] = {
            ("bare", ""): (self._loop(), {}), ("empty", ""): (self._loop(statement=statements("pass")), {})}
        for part in self.parts:
            begin, end = part["begin"], part["end"]
            for kind, together in (("part", False), ("stamps", True)):
                if part["reason"] is None and begin != "preparing":
                    runs[kind, part["key"]] = self._stamped(begin, end, together)
                elif part["reason"] is None:
                    runs[kind, ARGUMENTS] = self._stamped_turns(together)
        return runs

    def _stamped(self, begin: str, end: str, together: bool) -> Run:
        """Return a run with a stamp at `begin` and one at `end`, or, `together`, both at `begin`."""
        first, last = _stamp(_BEGIN), _stamp(_END)
        marks = [(begin, first + last)] if together else [(end, last), (begin, first)]
        around = dict(marks)
        loop = self._loop(around.get("statement", ()), around.get("end", ()))
        codes: dict[str, CodeType] = {}
        for name, source in self._boundaries.functions.items():
            tree, original = source.tree(), source.tree()
            for place, stamps in marks:
                if place not in ("statement", "end") and (place == "entered") == (name == "entered"):
                    self._boundaries.insert(tree, source, place, stamps)
            if ast.dump(tree) != ast.dump(original):
                codes[name] = source.compile(tree)
        return loop, codes

    def _stamped_turns(self, together: bool) -> Run:
        """Return a run with a stamp before the loop over arguments, in each turn of it, and behind it."""
        stamp = f"{_STAMP}({_NOW}())\n" * (2 if together else 1)
        source, tree = self._boundaries.split_turns(stamp)
        return self._loop(), {"launched": source.compile(tree)}

    def _loop(self, before: Sequence[Any] = (), behind: Sequence[Any] = (),
              statement: list[Any] | None = None) -> Callable[..., int]:
        """Return the function that launches in a loop, with stamps before and behind the statement."""
        module: Any = ast.parse(_LOOP)
        body = self._statement if statement is None else statement
        module.body[0].body[1].body = [*copy.deepcopy(list(before)), *copy.deepcopy(body),
                                       *copy.deepcopy(list(behind))]
        scope = self.namespace
        made: dict[str, Any] = {}
        exec(compile(ast.fix_missing_locations(module), "<anatomy>", "exec"), scope, made)
        return made["_run"]

    def _batches(self, run: Run, loops: int, repeats: int = 1,
                 see: Callable[[dict[str, Any]], object] | None = None) -> list[Batch]:
        """Run batches; return of each its time on the host, the cell of the stamps, and the list of stamps."""
        function, codes = run
        functions = {name: self._boundaries.functions[name].function for name in codes}
        scopes = [self.namespace, *(function.__globals__ for function in functions.values())]
        added: dict[str, Any] = {_CELL: self._cell, _NOW: self._clock, _SEE: see, _STAMP: self._stamps.append}
        own = {name: borrower.__code__ for name, borrower in functions.items()}
        done: list[Batch] = []
        references: list[int] = []
        try:
            for scope in scopes:
                scope.update(added)
            for name, code in codes.items():
                functions[name].__code__ = code
            if see is None:
                self.settle()
                self._run(function, min(_WARM_LAUNCHES, self.most_loops or _WARM_LAUNCHES))
            for _ in range(repeats):
                self._cell[:] = [0, 0, 0]
                self._stamps.clear()
                before_ns = quiet.reference_ns()
                done.append((self._run(function, loops), tuple(self._cell), tuple(self._stamps)))
                references.append(max(before_ns, quiet.reference_ns()))
            return _quietest(done, references)
        finally:
            for name, code in own.items():
                functions[name].__code__ = code
            for scope in scopes:
                for name in added:
                    scope.pop(name, None)

    def _run(self, function: Callable[..., int], loops: int) -> int:
        self._synchronize()
        if self._before is not None:
            exec(self._before, self.namespace)
        try:
            return function(repeat(None, loops))
        finally:
            if self._after is not None:
                exec(self._after, self.namespace)
            self._synchronize()


def _quietest(batches: list[Batch], references: list[int]) -> list[Batch]:
    """Return the batches that are the most quiet ones, half of them, in their order."""
    slowest = sorted(references)[(len(references) - 1) // 2]
    return [batch for batch, reference in zip(batches, references) if reference <= slowest]


def _stamp(text: str) -> list[Any]:
    return statements(text.format(cell=_CELL, now=_NOW))


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
