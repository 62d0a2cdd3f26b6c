"""Limits of a test's ``kernelscope`` marks, their check, and the report of a run."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

import kernelscope
from kernelscope import dryrun
from kernelscope.analysis.columns import captured, raised, ran, with_columns
from kernelscope.analysis.compiles import CompilationSummary, compilations
from kernelscope.analysis.torch_reasons import FRAMEWORK as TORCH
from kernelscope.errors import KernelScopeError
from kernelscope.probes import base
from kernelscope.recorder.recorder import Recorder
from kernelscope.recording.file import load
from kernelscope.recording.merge import merge
from kernelscope.recording.model import DRY_RUN_NOTICE, SIMULATOR_NOTICE, Recording
from kernelscope.recording.parquet import table_of_rows
from kernelscope.recording.redact import shareable, shareable_values
from kernelscope.registry import frameworks
from kernelscope.schema import TABLES
from kernelscope.suggestions import did_you_mean
from kernelscope.units import brief, count, counted, duration, listed
from kernelscope.views.base import clean, shorten, width_of
from kernelscope.views.card import labels


@dataclass(frozen=True)
class Limits:
    """Limits of one call of a test; None is no limit.

    Attributes
    ----------
    max_compiles : int or None
        Compiles, of every framework. Loads from the disk cache, waits for another thread's compile, failed compiles and
        what torch.compile compiles inside of one of its own do not count.
    max_specializations : int, mapping of str to int, or None
        Distinct specializations of one kernel that are launched, compiled or loaded: the same for every kernel, or by
        the kernel's name, qualified or its last part.
    max_launches : int or None
        Launches of all kernels together, whoever launched them, but for those of an autotuner's benchmarks, and those
        that raised before the driver had accepted them.
    """

    max_compiles: int | None = None
    max_specializations: int | Mapping[str, int] | None = None
    max_launches: int | None = None

    def stated(self) -> dict[str, Any]:
        """Return the limits that there are, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class LimitError(ValueError):
    """A mark has a wrong argument; the message is one line that names the test."""


_NAMES = tuple(field.name for field in fields(Limits))


def limits_of(item: pytest.Item) -> Limits | None:
    """Return the limits of a test's marks, or None where it has none.

    For each limit the closest mark that names it holds: the test's own, its class's, its module's. A limit of None
    lifts one from farther out.

    Raises
    ------
    LimitError
        A mark names no limit or an unknown one, or gives one that is no count.
    """
    found: dict[str, Any] = {}
    marks = list(item.iter_markers("kernelscope"))
    for mark in marks:
        problem = _problem(mark.args, mark.kwargs)
        if problem:
            raise LimitError(f"{item.nodeid}: @pytest.mark.kernelscope {problem}")
        for name, value in mark.kwargs.items():
            found.setdefault(name, value)
    return Limits(**found) if marks else None


def _problem(args: tuple[Any, ...], limits: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a mark's arguments, or None."""
    if args:
        return f"takes keyword arguments only ({', '.join(_NAMES)}), not {args[0]!r}"
    if not limits:
        return f"names no limit; there are {', '.join(_NAMES)}"
    for name, value in limits.items():
        if name not in _NAMES:
            return f"has an unknown limit {name!r}; known: {', '.join(_NAMES)}{did_you_mean(name, _NAMES)}"
        if value is None or _is_count(value):
            continue
        if name != "max_specializations":
            return f"{name}={value!r} is not a count: it takes an int of 0 or more"
        if not isinstance(value, Mapping):
            return f"{name}={value!r} is neither a count nor a dict of counts by kernel name"
        for kernel, most in cast("Mapping[Any, Any]", value).items():
            if not isinstance(kernel, str) or not kernel:
                return f"{name} is by kernel name, and {kernel!r} is none"
            if not _is_count(most):
                return f"{name}={{{kernel!r}: {most!r}}} is not a count: it takes an int of 0 or more"
    return None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# The check of a recorded test against its limits, and the message of a failure.

#: How many compiles and kernels a message lists before "and N more".
TOP = 6

#: Reasons that a warm-up or a definition explains: they are listed after those that can be fixed.
_EXPECTED = ("first_use", "eager", "disk", "wait")
#: What came of a compile.
_OUTCOMES = {"disk": "from disk", "wait": "waited"}


@dataclass(frozen=True)
class KernelUse:
    """What a test's call did with one kernel function, all dispatchers made from it together.

    Attributes
    ----------
    name, module : str
        The function's qualified name, and the module that defines it.
    dispatchers : tuple of int
        Its rows in ``dispatchers``: more than one where the definition ran again.
    launches, captured, refused : int
        Launches that ran, those that went into the capture of a graph, and those that raised before the driver had
        accepted them, which are among neither.
    specializations : tuple of int
        Rows of ``specializations`` that were launched, compiled or loaded.
    """

    name: str
    module: str
    dispatchers: tuple[int, ...]
    launches: int
    captured: int
    refused: int
    specializations: tuple[int, ...]

    def is_called(self, name: str) -> bool:
        """Return whether a name means this kernel: its last part, qualified name, or that with the module."""
        # Probes may leave "<locals>" out, which Python writes after a function's name.
        own, wanted = self.name.replace(".<locals>", ""), name.replace(".<locals>", "")
        return wanted in (own, own.rpartition(".")[2], f"{self.module}.{own}")


@dataclass(frozen=True)
class Excess:
    """One limit that was exceeded.

    Attributes
    ----------
    limit : str
        Its name, such as ``max_compiles``.
    text : str
        What was more than it allows, in one line.
    dispatchers : frozenset of int
        The kernels concerned, rows of ``dispatchers``.
    """

    limit: str
    text: str
    dispatchers: frozenset[int]


def kernels_used(recording: Recording) -> list[KernelUse]:
    """Return every kernel function that was launched, compiled or loaded, most launches first."""
    found: dict[tuple[Any, ...], list[int]] = {}
    rows = {row["dispatcher_id"]: row for row in recording.rows("dispatchers")}
    for at, row in rows.items():
        key = (row["framework"], row["module"], row["name"], row["filename"], row["lineno"])
        found.setdefault(key, []).append(at)
    owner = recording.column("launches", "dispatcher_id")
    # What raised after the driver's call returned, as in copying back, was launched.
    refused = raised(recording) & (recording.column("launches", "submit_end_ns") < 0)
    launches, captures, refusals = (Counter[int](owner[which].tolist()) for which in (
        ran(recording) & ~refused, captured(recording) & ~refused, refused))
    made: dict[int, set[int]] = {}
    for table in ("launches", "compilations"):
        owners = recording.column(table, "dispatcher_id").tolist()
        members = recording.column(table, "specialization_id").tolist()
        for owner, member in set(zip(owners, members, strict=True)):
            made.setdefault(owner, set()).update((member,) if member >= 0 else ())
    uses = [
        KernelUse(
            name=str(name), module=str(module or ""), dispatchers=tuple(ids),
            launches=sum(launches[each] for each in ids), captured=sum(captures[each] for each in ids),
            refused=sum(refusals[each] for each in ids),
            specializations=tuple(sorted(at for each in ids for at in made.get(each, ()))),
        )
        for (_, module, name, _, _), ids in found.items() if any(each in made for each in ids)
    ]
    return sorted(uses, key=lambda each: (-each.launches, each.name))


def exceeded(recording: Recording, limits: Limits) -> list[Excess]:
    """Return the limits that the recorded call exceeded, in the order in which they are documented."""
    used = kernels_used(recording)
    result: list[Excess] = []
    if limits.max_compiles is not None:
        inside = compiled_inside(recording)
        compiled = [each for each in compilations(recording)
                    if each.outcome == "compiled" and each.compilation_id not in inside]
        if len(compiled) > limits.max_compiles:
            result.append(Excess(
                "max_compiles", f"{counted(len(compiled), 'compile')}, at most {count(limits.max_compiles)} allowed",
                frozenset(each.dispatcher_id for each in compiled)))
    if isinstance(limits.max_specializations, Mapping):
        for name, most in limits.max_specializations.items():
            result += _by_name(name, most, used)
    elif limits.max_specializations is not None:
        result += _too_many(used, limits.max_specializations)
    launches = sum(each.launches for each in used)
    if limits.max_launches is not None and launches > limits.max_launches:
        refused = sum(each.refused for each in used)
        besides = f", besides {count(refused)} that failed" if refused else ""
        text = f"{counted(launches, 'launch', 'launches')}{besides}, at most {count(limits.max_launches)} allowed"
        result.append(Excess("max_launches", text, frozenset()))
    return result


def compiled_inside(recording: Recording) -> set[int]:
    """Return the compiles that were made inside of one of torch.compile: those of its function's kernels."""
    rows = recording.rows("compilations")
    torch = {row["dispatcher_id"] for row in recording.rows("dispatchers") if row["framework"] == TORCH}
    around = [row for row in rows if row["dispatcher_id"] in torch and row["end_ns"] is not None]
    return {row["compilation_id"] for row in rows if row["dispatcher_id"] not in torch and any(
        row["thread_id"] == each["thread_id"] and each["start_ns"] <= row["start_ns"] < each["end_ns"]
        for each in around)}


def message(recording: Recording, found: Sequence[Excess], width: int | None = None) -> str:
    """Return what a failed check prints: each limit, then each compile with its reason, argument, fix and duration.

    Parameters
    ----------
    recording : Recording
        What the test's call did.
    found : sequence of Excess
        What `exceeded` returned, at least one.
    width : int, optional
        Columns to keep to; without it the terminal's, between 80 and 120.
    """
    columns = width or min(max(shutil.get_terminal_size((100, 24)).columns, 80), 120)
    parts = [_filled(f"kernelscope: {each.text} ({each.limit})", columns, 0) for each in found]
    concerned = frozenset[int]().union(*(each.dispatchers for each in found))
    kinds = {each.limit for each in found}
    if concerned:
        parts.append(_compiles(recording, concerned, "max_specializations" in kinds, columns))
    used = kernels_used(recording)
    if "max_specializations" in kinds:
        parts += [_before(recording, each, columns) for each in used if concerned.intersection(each.dispatchers)]
    if "max_launches" in kinds:
        listed = [f"{clean(each.name)} {count(each.launches)}{_failed(each)}" for each in used
                  if each.launches or each.refused]
        parts.append(_filled(f"launches: {_few(listed)}", columns, 0))
    if recording.notice:
        parts.append(f"({clean(recording.notice)})")
    return "\n".join(part for part in parts if part)


def _failed(each: KernelUse) -> str:
    return f" ({count(each.refused)} failed)" if each.refused else ""


#: The probes of frameworks that compile or launch, but for numba-cuda's.
_FRAMEWORKS = ("numba-cuda-mlir", "cuda.compute", "quadrants", "triton", "torch.compile",
               *(framework.name for framework in frameworks()))
#: Libraries of which CUPTI alone sees the launches, and what tells that they use a GPU.
_BY_CUPTI: dict[str, Callable[[Any], bool]] = {
    "torch": lambda torch: torch.cuda.is_initialized(),
    **{framework.module: bool for framework in frameworks() if framework.is_seen_by_cupti}}


def unrecorded(recording: Recording, limits: Limits | None = None) -> str | None:
    """Return why compiles or launches could not be seen, in one line; None where they could, or where there are none.

    Parameters
    ----------
    recording : Recording
        What the test's call did.
    limits : Limits, optional
        What it is held to: with ``max_launches`` all launches have to be seen, also those that CUPTI alone sees.
    """
    rows = recording.rows("health")
    numba = [row for row in rows if row["probe"] == "numba-cuda"]
    is_hooked = any(row["cost_ns"] is not None for row in numba)  # calibrated
    unseen = [row for row in ([] if is_hooked else numba) if row["status"] in ("unavailable", "degraded", "failed")]
    unseen += [row for row in rows if row["probe"] in _FRAMEWORKS and row["status"] in ("unavailable", "failed")]
    for row in unseen:
        return _problem_of(row)
    if limits is None or limits.max_launches is None:
        return None
    for row in rows:
        if row["probe"] == "cupti" and row["status"] in ("unavailable", "failed"):
            users = [name for name, uses in _BY_CUPTI.items()
                     if name in sys.modules and _is_so(uses, sys.modules[name])]
            if users:
                return f"launches of {listed(users)} are seen through CUPTI alone: {_problem_of(row)}"
    return None


def _is_so(uses: Callable[[Any], bool], module: Any) -> bool:
    try:
        return bool(uses(module))
    except Exception:  # a module that is half imported, or stands in for another
        return False


def _problem_of(row: Mapping[str, Any]) -> str:
    return f"{clean(row['message'])}" + (f"; {clean(row['fix'])}" if row["fix"] else "")


def _by_name(name: str, most: int, used: Sequence[KernelUse]) -> list[Excess]:
    found = [each for each in used if each.is_called(name)]
    if found or not most:
        return _too_many(found, most)
    # A name that is never met would let the check pass for ever, be it mistyped or of a kernel that was renamed.
    seen = _few([f"{clean(each.module)}.{clean(each.name)}".lstrip(".") for each in used])
    near = did_you_mean(name, [clean(each.name) for each in used])
    text = f"no kernel {clean(name)!r} was launched or compiled; seen: {seen or 'none'}{near}"
    return [Excess("max_specializations", text, frozenset())]


def _too_many(used: Sequence[KernelUse], most: int) -> list[Excess]:
    return [
        Excess("max_specializations", (f"{clean(each.name)} has {counted(len(each.specializations), 'specialization')}"
                                       f"{_remade(each)}, at most {count(most)} allowed"), frozenset(each.dispatchers))
        for each in used if len(each.specializations) > most
    ]


def _remade(each: KernelUse) -> str:
    return f" of {len(each.dispatchers)} dispatchers, since its definition ran again" if each.dispatchers[1:] else ""


def _compiles(recording: Recording, concerned: frozenset[int], with_loads: bool, width: int) -> str:
    """Return the compiles of some kernels, those that can be fixed first, then the longest."""
    outcomes = ("compiled", "failed", "disk") if with_loads else ("compiled", "failed")
    arguments = {row["compilation_id"]: row["argument"] for row in recording.rows("compilations")}
    shown = [each for each in compilations(recording)
             if each.outcome in outcomes and (each.dispatcher_id in concerned or each.outcome == "failed")]
    shown.sort(key=lambda each: (each.outcome != "compiled", each.reason_code in _EXPECTED))
    lines: list[str] = []
    for each in shown[:TOP]:
        lines += _compile(each, arguments[each.compilation_id], width)
    if len(shown) > TOP:
        lines.append(f"  and {counted(len(shown) - TOP, 'more compile')}")
    return "\n".join(lines)


def _compile(each: CompilationSummary, argument: str | None, width: int) -> list[str]:
    outcome = _OUTCOMES.get(each.outcome, each.outcome)
    first = f"{duration(each.duration_ns):>9}  {outcome} {clean(labels.trigger(each))}: {clean(each.name)} "
    code = each.reason_code + (f", argument {clean(argument)}" if argument else "")
    lines = [first + shorten(clean(each.signature), max(width - width_of(first), 24)),
             _filled(f"why: {clean(each.reason)} [{code}]", width, 11)]
    if each.fix:
        lines.append(_filled(f"fix: {clean(each.fix)}", width, 11))
    return lines


def _before(recording: Recording, used: KernelUse, width: int) -> str:
    """Return the specializations of a kernel that were launched but not compiled in this test."""
    here = set(recording.column("compilations", "specialization_id").tolist())
    rows = recording.rows("specializations")
    known = [clean(rows[at]["signature"]) for at in used.specializations if at not in here]
    return _filled(f"there before: {clean(used.name)} {_few(known)}", width, 2) if known else ""


def _few(texts: Sequence[str]) -> str:
    return listed(texts, TOP)


def _filled(text: str, width: int, indent: int) -> str:
    return textwrap.fill(text, width, initial_indent=" " * indent, subsequent_indent=" " * (indent + 5),
                         break_on_hyphens=False)


def entry(recording: Recording) -> dict[str, Any]:
    """Return the JSON of one recorded test in a report; the guide lists its keys."""
    found = compilations(recording)
    arguments = {row["compilation_id"]: row["argument"] for row in recording.rows("compilations")}
    modules = {row["dispatcher_id"]: row["module"] for row in recording.rows("dispatchers")}
    inside = compiled_inside(recording)
    outcomes = Counter(each.outcome for each in found if each.compilation_id not in inside)
    used = kernels_used(recording)
    return {
        "launches": sum(each.launches for each in used),
        "captured": sum(each.captured for each in used),
        "refused": sum(each.refused for each in used),
        "compiles": outcomes["compiled"],
        "compile_ns": sum(each.duration_ns for each in found if each.outcome == "compiled"),
        "disk_loads": outcomes["disk"],
        "waits": outcomes["wait"],
        "failed_compiles": outcomes["failed"],
        "kernels": [
            {"kernel": each.name, "module": each.module, "launches": each.launches, "captured": each.captured,
             "refused": each.refused, "specializations": len(each.specializations),
             "dispatchers": len(each.dispatchers)} for each in used
        ],
        "compilations": [
            {"kernel": each.name, "module": modules.get(each.dispatcher_id), "signature": each.signature,
             "trigger": each.trigger, "outcome": each.outcome, "duration_ns": each.duration_ns,
             "reason_code": each.reason_code, "argument": arguments[each.compilation_id], "reason": each.reason,
             "fix": each.fix, "error": each.error and brief(each.error)} for each in found
        ],
    }


# ``--kernelscope-report``.

#: Raised whenever a key of the JSON report changes its name or its meaning.
REPORT_VERSION = 2

_COUNTS = ("launches", "compiles", "compile_ns", "disk_loads", "waits", "failed_compiles")
_TOP_REASONS = 3
# So many parts become one at a time, so that a long run's parts stay few.
_PARTS_AT_ONCE = 64


class Report:
    """Collects the tests' parts as their reports come in, and writes the file when the run ends.

    Parameters
    ----------
    path : Path
        Where to: ``.json`` or ``.kscope``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: list[dict[str, Any]] = []
        self._last: dict[str, dict[str, Any]] = {}
        self._parts: list[Recording] = []
        self._merged: list[Recording] = []
        self._problem: str | None = None

    def add(self, nodeid: str, outcome: str, data: dict[str, Any] | None, worker: str | None = None) -> None:
        """Add one test's part; `data` is None where its call was not reached."""
        held: dict[str, Any] = {"recorded": False} if data is None else dict(data)
        part = held.pop("recording", None)
        if part is not None:
            self._take(part if isinstance(part, Recording) else unpacked(part))
        row = {"nodeid": nodeid, "outcome": outcome, **({} if worker is None else {"worker": worker}), **held}
        self.tests.append(row)
        self._last[nodeid] = row

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the data off a report, so that no other plugin has to carry it."""
        data = vars(report).pop(ATTRIBUTE, None)
        worker = getattr(report, "worker_id", None)
        if data is not None:
            self.add(report.nodeid, _outcome(report), data, worker)
        elif report.when == "teardown" and report.failed and report.nodeid in self._last:
            self._last[report.nodeid]["outcome"] = "error"
        elif report.when != "call" and not report.passed:  # A call without data is a subtest of one with it.
            self.add(report.nodeid, _outcome(report), None, worker)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file: also of a run that was interrupted, as far as it came."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._write()
        except (KernelScopeError, OSError, ValueError) as error:
            self._problem = f"not written: {error}"
            if not session.exitstatus:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a few lines: what was recorded, what compiled and mostly why, and where the file is."""
        terminalreporter.section("kernelscope")
        for line in self.lines():
            terminalreporter.line(line)
        if self._problem is not None:
            terminalreporter.line(clean(f"{self.path}: {self._problem}"), red=True)

    def lines(self) -> list[str]:
        """Return the section's lines."""
        totals = self.totals()
        compiles = f"{counted(totals['compiles'], 'compile')}"
        if totals["compiles"]:
            compiles += f" ({duration(totals['compile_ns'])})"
        parts = [counted(totals["launches"], "launch", "launches"), compiles]
        for key, noun in (("disk_loads", "load from disk"), ("failed_compiles", "failed compile")):
            if totals[key]:
                plural = "loads from disk" if key == "disk_loads" else None
                parts.append(counted(totals[key], noun, plural))
        recorded, tests = totals["recorded"], totals["tests"]
        which = counted(tests, "test") if recorded == tests else f"{count(recorded)} of {counted(tests, 'test')}"
        lines = [f"{which} recorded: {', '.join(parts)}"]
        if totals["reasons"]:
            listed = [f"{each['reason_code']} {duration(each['duration_ns'])} in {counted(each['compiles'], 'compile')}"
                      for each in totals["reasons"][:_TOP_REASONS]]
            lines.append(f"most expensive reasons: {', '.join(listed)}")
        if totals["exceeded"]:
            lines.append(f"limits exceeded by {counted(totals['exceeded'], 'test')}")
        problems = list(dict.fromkeys(test["problem"] for test in self.tests if test.get("problem")))
        lines += [f"not recorded: {clean(problem)}" for problem in problems[:_TOP_REASONS]]
        lines += [notice for is_so, notice in ((self._is_dry_run(), DRY_RUN_NOTICE),
                                               (self._any("simulator"), SIMULATOR_NOTICE)) if is_so]
        if self._problem is None:
            lines.append(f"written: {clean(self.path)}")
        return lines

    def totals(self) -> dict[str, Any]:
        """Return the sums over all tests; ``reasons`` has the compiles by reason code, the most time first."""
        spent, compiles = Counter[str](), Counter[str]()
        for test in self.tests:
            for each in test.get("compilations", ()):
                if each["outcome"] == "compiled":
                    spent[each["reason_code"]] += each["duration_ns"]
                    compiles[each["reason_code"]] += 1
        return {
            "tests": len(self.tests),
            "recorded": sum(bool(test["recorded"]) for test in self.tests),
            "exceeded": sum(bool(test.get("exceeded")) for test in self.tests),
            **{name: sum(test.get(name, 0) for test in self.tests) for name in _COUNTS},
            "reasons": [{"reason_code": code, "compiles": compiles[code], "duration_ns": time}
                        for code, time in spent.most_common()],
        }

    def content(self) -> dict[str, Any]:
        """Return the JSON report, without paths of this machine."""
        return shareable_values({
            "report_version": REPORT_VERSION,
            "kernelscope": kernelscope.__version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "dry_run": self._is_dry_run(),
            "simulator": self._any("simulator"),
            "totals": self.totals(),
            "tests": [{key: value for key, value in test.items() if key not in ("dry_run", "simulator")}
                      for test in self.tests],
        }, ("nodeid",))

    def _is_dry_run(self) -> bool:
        # Where no test was recorded, as after an error of collection, it is this process that says so.
        return self._any("dry_run") or dryrun.is_enabled()

    def _any(self, flag: str) -> bool:
        return any(test.get(flag) for test in self.tests)

    def _take(self, part: Recording) -> None:
        self._parts.append(part)
        if len(self._parts) >= _PARTS_AT_ONCE:
            self._merged.append(_merged(self._parts))
            self._parts.clear()

    def _write(self) -> None:
        if self.path.suffix.lower() == ".json":
            part = self.path.with_name(f"{self.path.name}.part")
            part.write_text(json.dumps(self.content(), indent=1) + "\n", encoding="utf-8")
            part.replace(self.path)
            return
        parts = [*self._merged, *self._parts]
        nothing = Recording({}, {"name": "pytest", "dry_run": self._is_dry_run()})
        (_merged(parts) if parts else nothing).save(self.path)


def _merged(parts: Sequence[Recording]) -> Recording:
    """Return the parts as one recording; tests without a launch count as the same kind as the others."""
    flags = {name: any(part.metadata.get(name) for part in parts) for name in ("dry_run", "simulator")}
    alike = [
        part if part.arrow("launches").num_rows or flags.items() <= part.metadata.items()
        else Recording({name: part.arrow(name) for name in TABLES}, {**part.metadata, **flags})
        for part in parts
    ]
    return merge(alike, name="pytest")


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    if report.failed and report.when != "call":
        return "error"
    return report.outcome


# Records the calls of tests, and fails those that exceed their limits.

#: The attribute of a test's report that carries what was recorded to the controller.
ATTRIBUTE = "kernelscope"


@dataclass
class _Attempt:
    """One call of a test under way."""

    recorder: Recorder
    limits: Limits | None = None
    problem: str | None = None


_DATA = pytest.StashKey["dict[str, Any]"]()
_FAILURE = pytest.StashKey[str]()


class CallRecorder:
    """The hooks that record each test's call: registered only where something is to be recorded.

    Parameters
    ----------
    report : Report, optional
        Where an interrupted test's part goes, which pytest makes no report of; not in a worker.
    keeps : str, optional
        The suffix of the report that every test is recorded for; None records tests with limits only.
    is_worker : bool
        Whether pytest-xdist started this process.
    """

    def __init__(self, report: Report | None, keeps: str | None, is_worker: bool) -> None:
        self._report = report
        self._keeps = keeps
        # What leaves the process, also that of a plugin that forks for each test, must be of plain values.
        self._process = None if is_worker else os.getpid()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Fail a test whose mark is wrong; where pytest-xdist does not run the tests, collection has ended already."""
        try:
            limits_of(item)
        except LimitError as problem:
            raise pytest.fail.Exception(str(problem), pytrace=False) from None

    # Innermost: other plugins' work around the call, such as capturing its output, is not recorded.
    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Record the call; if it passed, hold it to its limits."""
        limits = limits_of(item)
        if limits is None and self._keeps is None:
            yield
            return
        # CUPTI, and waiting for the device, change what the test does: only where launches are limited, of which it
        # sees those that no probe does, such as PyTorch's.
        counts = limits is not None and limits.max_launches is not None
        attempt = _Attempt(Recorder(item.nodeid, gpu="cupti" if counts else "none", synchronize=counts), limits)
        try:
            _begin(attempt, item)
            outcome = yield
        except BaseException:
            _give_up(attempt)
            raise
        try:
            raised: BaseException | None = None if outcome.excinfo is None else outcome.excinfo[1]
            if raised is not None:  # pytest shows its traceback, where our hooks have no place
                base.clean(raised, frozenset(base.hook_codes))
            recording = _end(attempt, raised)
            found: list[str] = []
            if limits is not None and raised is None:
                failure = _failure(attempt, recording, limits, found)
                # A plugin that repeats failed tests finds the kernels compiled: what was too much stays so.
                failure = item.stash.setdefault(_FAILURE, failure) if failure else item.stash.get(_FAILURE, None)
                if failure is not None:
                    _replace(outcome, pytest.fail.Exception(failure, pytrace=False))
            if self._keeps is not None:
                self._keep(item, attempt, recording, limits, found, raised)
        except BaseException as error:  # a Ctrl-C or a timeout here: other plugins' work around the call goes on
            _give_up(attempt)
            _replace(outcome, error)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        """Give the report of a call what was recorded of it."""
        outcome = yield
        if call.when == "call" and _DATA in item.stash:
            setattr(outcome.get_result(), ATTRIBUTE, item.stash[_DATA])
            del item.stash[_DATA]

    def _keep(self, item: pytest.Item, attempt: _Attempt, recording: Recording | None, limits: Limits | None,
              found: list[str], raised: BaseException | None) -> None:
        data: dict[str, Any] = {"recorded": recording is not None, "problem": attempt.problem}
        if recording is not None:
            data |= {"dry_run": recording.is_dry_run, "simulator": recording.is_simulated, **entry(recording)}
            if self._keeps == ".kscope":
                kept = recording if _has_events(recording) else _cell_only(recording)
                data["recording"] = kept if os.getpid() == self._process else _packed(kept)
        if limits is not None:
            data |= {"limits": limits.stated(), "exceeded": found}
        if self._report is not None and isinstance(raised, KeyboardInterrupt | pytest.exit.Exception):
            self._report.add(item.nodeid, "interrupted", data)
        else:
            item.stash[_DATA] = data


def unpacked(part: dict[str, Any]) -> Recording:
    """Return the recording that another process handed over as plain values."""
    if "file" not in part:
        return Recording({"cells": table_of_rows("cells", part["cells"])}, part["metadata"])
    with tempfile.TemporaryDirectory(prefix="kernelscope-") as folder:
        path = Path(folder, "part.kscope")
        path.write_bytes(base64.b64decode(part["file"]))
        return load(path)


def _packed(recording: Recording) -> dict[str, Any]:
    """Return a recording as plain values for another process, with its threads named after this one."""
    if not _has_events(recording):  # as most tests of most runs: a file would be a hundred times as much work
        return {"cells": recording.rows("cells"), "metadata": dict(recording.metadata)}
    worker = os.environ.get("PYTEST_XDIST_WORKER") or f"process {os.getpid()}"
    names = [f"{worker} {row['name'] or ''}".rstrip() for row in recording.rows("threads")]
    with tempfile.TemporaryDirectory(prefix="kernelscope-") as folder:
        path = with_columns(recording, "threads", {"name": names}).save(Path(folder, "part.kscope"), paths=True)
        return {"file": base64.b64encode(path.read_bytes()).decode("ascii")}


def _has_events(recording: Recording) -> bool:
    shown = ("launches", "compilations", "passes", "builds", "graph_events", "ranges")
    return any(recording.arrow(name).num_rows for name in shown)


def _cell_only(recording: Recording) -> Recording:
    return Recording({"cells": recording.arrow("cells")}, recording.metadata)


def _begin(attempt: _Attempt, item: pytest.Item) -> None:
    """Start to record; what KernelScope itself cannot do must not keep the test from running."""
    try:
        attempt.recorder.start()
        attempt.recorder.begin_cell(item.nodeid)
    except Exception as error:
        if base.from_signal_handler(error):  # such as a timeout's
            raise
        attempt.problem = f"could not record: {type(error).__name__}: {error}"


def _give_up(attempt: _Attempt) -> None:
    """Stop where what records was interrupted."""
    if attempt.recorder.is_recording:
        attempt.recorder.stop()


def _end(attempt: _Attempt, raised: BaseException | None) -> Recording | None:
    recorder = attempt.recorder
    if not recorder.is_recording:
        return None
    try:
        try:
            # A skip is no error of the cell.
            recorder.end_cell(None if isinstance(raised, pytest.skip.Exception) else raised)
        finally:
            recording = recorder.stop()
    except Exception as error:
        attempt.problem = f"could not record: {type(error).__name__}: {error}"
        return None
    attempt.problem = attempt.problem or unrecorded(recording, attempt.limits)
    return recording


def _failure(attempt: _Attempt, recording: Recording | None, limits: Limits, found: list[str]) -> str | None:
    """Return why a test that passed fails its limits, or None; add the exceeded limits to `found`."""
    if recording is None or attempt.problem is not None:
        # A check that saw nothing must not pass.
        return f"kernelscope: the limits of this test were not checked: {attempt.problem}"
    excesses = exceeded(recording, limits)
    found += [f"{each.limit}: {each.text}" for each in excesses]
    return message(shareable(recording), excesses) if excesses else None


def _replace(outcome: Any, error: BaseException) -> None:
    """Let the call end with `error`; raised from here, it would keep other plugins from cleaning up."""
    if hasattr(outcome, "force_exception"):
        outcome.force_exception(error)
    else:  # pluggy 1.0, as pytest 7.0 allows
        outcome._excinfo = (type(error), error, error.__traceback__)
