"""Build caches: what was asked of each algorithm's cache, what had to be built, why, and what would avoid it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kernelscope.analysis import tuning
from kernelscope.analysis.activities import Spread, spread
from kernelscope.analysis.columns import data_frame, json_object, with_columns
from kernelscope.recording.model import Recording
from kernelscope.recording.time import row_duration_ns
from kernelscope.units import listed

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Miss:
    """One request that built, waited or failed; what was not recorded is None.

    Attributes
    ----------
    build_id : int
        Its row in ``builds``.
    algorithm, outcome : str
        What was asked for; miss, wait or failed.
    duration_ns, build_ns : int or None
        How long it took, and of that in the library's compiler and linker.
    cell_id : int or None
        The cell that ran.
    reason_code, reason, fix, error : str or None
        Why it was a miss, what would avoid it, and what it raised.
    """

    build_id: int
    algorithm: str
    outcome: str
    duration_ns: int | None
    build_ns: int | None
    cell_id: int | None
    reason_code: str | None
    reason: str | None
    fix: str | None
    error: str | None


@dataclass(frozen=True)
class BuildSummary:
    """Requests for one algorithm; what was not recorded is None.

    Attributes
    ----------
    framework, algorithm : str
        Whose cache it is, and what was asked for.
    requests, hits, misses, waits, failed : int
        Requests, by what came of them.
    host_ns : int
        Time of all requests.
    build_ns : int or None
        Of that, in the library's compiler and linker.
    miss, hit : Spread or None
        Time of a request that built, and of one that found it.
    cubin_bytes : int or None
        Machine code that was built.
    not_hits : tuple of Miss
        The requests that were no hit, longest first.
    """

    framework: str
    algorithm: str
    requests: int
    hits: int
    misses: int
    waits: int
    failed: int
    host_ns: int
    build_ns: int | None
    miss: Spread | None
    hit: Spread | None
    cubin_bytes: int | None
    not_hits: tuple[Miss, ...]


def by_algorithm(recording: Recording) -> list[BuildSummary]:
    """Summarize the requests for each algorithm of a library, most time first."""
    held: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in recording.rows("builds"):
        if row["dispatcher_id"] is not None:
            continue  # of an autotuner: `kernelscope.analysis.tuning`
        held.setdefault((str(row["framework"]), str(row["algorithm"])), []).append(row)
    found = [_summary(framework, algorithm, rows) for (framework, algorithm), rows in held.items()]
    return sorted(found, key=lambda each: (-each.host_ns, each.framework, each.algorithm))


def build_table(recording: Recording) -> pd.DataFrame:
    """Return `by_algorithm` as a DataFrame.

    Its columns are ``framework``, ``algorithm``, ``requests``, ``hits``, ``misses``, ``waits``, ``failed``,
    ``host_ns``, ``build_ns``, ``miss_p50_ns``, ``hit_p50_ns`` and ``cubin_bytes``.
    """
    return data_frame(by_algorithm(recording), {
        "framework": "object", "algorithm": "object", "requests": "Int64", "hits": "Int64", "misses": "Int64",
        "waits": "Int64", "failed": "Int64", "host_ns": "Int64", "build_ns": "Int64", "miss_p50_ns": "Float64",
        "hit_p50_ns": "Float64", "cubin_bytes": "Int64",
    }, {"miss_p50_ns": "miss.p50_ns", "hit_p50_ns": "hit.p50_ns"})


def _summary(framework: str, algorithm: str, rows: list[dict[str, Any]]) -> BuildSummary:
    outcomes = [str(row["outcome"]) for row in rows]
    times = [row_duration_ns(row) for row in rows]
    # A hit builds nothing: its zero would make a sum of what is not known.
    built = [row["build_ns"] for row in rows if row["build_ns"] is not None and row["outcome"] != "hit"]
    sizes = [row["cubin_bytes"] for row in rows if row["cubin_bytes"] is not None]
    misses = [
        Miss(int(row["build_id"]), algorithm, outcome, took, row["build_ns"], row["cell_id"], row["reason_code"],
             row["reason"], row["fix"], row["error"])
        for row, outcome, took in zip(rows, outcomes, times, strict=True) if outcome != "hit"
    ]
    return BuildSummary(
        framework=framework, algorithm=algorithm, requests=len(rows), hits=outcomes.count("hit"),
        misses=outcomes.count("miss"), waits=outcomes.count("wait"), failed=outcomes.count("failed"),
        host_ns=sum(each or 0 for each in times), build_ns=sum(built) if built else None,
        miss=_spread(times, outcomes, "miss"), hit=_spread(times, outcomes, "hit"),
        cubin_bytes=sum(sizes) if sizes else None,
        not_hits=tuple(sorted(misses, key=lambda each: (-(each.duration_ns or 0), each.build_id))),
    )


def _spread(times: list[int | None], outcomes: list[str], outcome: str) -> Spread | None:
    chosen = [-1 if took is None else took for took, each in zip(times, outcomes, strict=True) if each == outcome]
    return spread(np.array(chosen, dtype=np.int64))


# Why each build was needed, and what would avoid it.
#
# `explain_builds` compares the key of each request that was no hit with the keys that its library is known to have
# built before, and writes ``nearest_build_id``, ``differing_parts``, ``reason_code``, ``reason`` and ``fix`` into
# ``builds``.
# The codes:
#
# ``first_use``
#     Nothing was known to be built for the algorithm.
# ``new_operator_name``
#     The operator has another ``__name__``, and is the same otherwise: a full build for nothing.
# ``new_operator_value``
#     The operator is the same function, and captures another number, object or shape of an array.
# ``new_operator``
#     It is another operator.
# ``new_dtype``
#     The elements are of another type.
# ``new_array_type``
#     The arrays are of another library's type.
# ``new_iterator``
#     An argument is an iterator and was an array, or is another iterator.
# ``new_device``
#     It was built for another compute capability.
# ``new_option``
#     Another argument of the algorithm differs.
# ``several``
#     Parts of several of these kinds differ.
# ``cache_cleared``
#     The very same had been built, and the caches were cleared meanwhile.
# ``wait``
#     It was not built: another thread was building it.
# ``unknown``
#     The very same is known to be built, or the key is not known.
#
# ``new_key``, ``redefined``, ``disk``
#     Of runs of an autotuner: see `kernelscope.analysis.tuning`.
#
# A reason that a probe has already filled in is kept. The parts of a key are named by the argument and what of it
# counts, as in ``d_in dtype``: see `PART_KINDS`.

#: What of an argument a part is about, the word behind the argument's name; a variable's name may come after it.
PART_KINDS = ("kind", "dtype", "name", "code", "state", "captured", "global")

_OF_AN_OPERATOR = frozenset(("name", "code", "state", "captured", "global"))
_COMPUTE_CAPABILITY = "compute_capability"
# The nearest of so many known builds is looked for: each of them took seconds.
_MOST_COMPARED = 200
_WRITTEN = ("nearest_build_id", "differing_parts", "reason_code", "reason", "fix")
_READ = (*_WRITTEN, "framework", "algorithm", "start_ns", "end_ns", "outcome", "key_parts", "attributes")


@dataclass(frozen=True)
class BuildReason:
    """Why a build was needed.

    Attributes
    ----------
    code : str
        One of `kernelscope.schema.BUILD_REASONS`.
    sentence : str
        The same with what was, and what is.
    fix : str or None
        What would avoid it.
    nearest : int or None
        ``build_id`` of the known build that it differs least from.
    differing : tuple of str
        Names of the parts that differ from that one's.
    """

    code: str
    sentence: str
    fix: str | None = None
    nearest: int | None = None
    differing: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Build:
    """One request, read."""

    build_id: int
    parts: Mapping[str, str]
    clears: int


@dataclass
class _Known:
    """What one algorithm is known to have built; of equal keys the latest."""

    builds: dict[frozenset[tuple[str, str]], _Build] = field(default_factory=dict[Any, _Build])

    def add(self, build: _Build) -> None:
        key = frozenset(build.parts.items())
        self.builds.pop(key, None)
        self.builds[key] = build

    def nearest(self, build: _Build) -> tuple[_Build, tuple[str, ...]] | None:
        """Return the known build that differs in the fewest parts (the latest of several), and their names."""
        key = frozenset(build.parts.items())
        same = self.builds.get(key)
        if same is not None:
            return same, ()
        best, least = None, None
        for other, known in itertools.islice(reversed(self.builds.items()), _MOST_COMPARED):
            # The distance between two keys; parts of one operator, which change together, count as one.
            differing = {name for name, _ in key ^ other}
            words = [item.split(" ") for item in differing]
            operators = {each[0] for each in words if not _OF_AN_OPERATOR.isdisjoint(each[1:])}
            weight = (len(operators) + sum(each[0] not in operators for each in words), len(differing))
            if least is None or weight < least:
                best, least = known, weight
        return None if best is None else (best, differing_parts(build.parts, best.parts))


def explain_builds(recording: Recording) -> Recording:
    """Return a copy of the recording in which every request that was no hit has a reason."""
    source: Any = recording
    columns = {name: cast(list[Any], source.arrow("builds").column(name).to_pylist()) for name in _READ}
    outcomes, codes = columns["outcome"], columns["reason_code"]
    asked = [at for at, outcome in enumerate(outcomes) if outcome != "hit"]
    if all(codes[at] is not None for at in asked):
        return recording
    of_tuning = tuning.reasons(recording)
    for at, reason in of_tuning.items():
        for name, value in reason.items():
            columns[name][at] = value
    known = _known_before(columns)
    # What was built is known when it was done; who waited for it may have asked before.
    asked = [at for at in asked if at not in of_tuning]
    for at in sorted(asked, key=lambda at: columns["start_ns"][at] if columns["end_ns"][at] is None
                     else columns["end_ns"][at]):
        held = known.setdefault((columns["framework"][at], columns["algorithm"][at]), _Known())
        build = _read(columns, at)
        if codes[at] is None:
            reason = _reason(str(outcomes[at]), str(columns["algorithm"][at]), build, held)
            row = (reason.nearest, ", ".join(reason.differing) or None, reason.code, reason.sentence, reason.fix)
            for name, value in zip(_WRITTEN, row, strict=True):
                columns[name][at] = value
        if outcomes[at] != "failed" and build.parts:
            held.add(build)
    return with_columns(recording, "builds", {name: columns[name] for name in _WRITTEN})


def _known_before(columns: Mapping[str, list[Any]]) -> dict[tuple[str, str], _Known]:
    """Return builds from before the recording: keys that a hit found and that no earlier request had built."""
    known: dict[tuple[str, str], _Known] = {}
    seen: set[tuple[str, str, str | None]] = set()
    for at, outcome in enumerate(columns["outcome"]):
        key = columns["framework"][at], columns["algorithm"][at], columns["key_parts"][at]
        if key in seen:
            continue
        seen.add(key)
        build = _read(columns, at)
        if outcome == "hit" and build.parts:
            known.setdefault(key[:2], _Known()).add(build)
    return known


def differing_parts(parts: Mapping[str, str], others: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the parts that two keys do not share, in the order of the first one."""
    names = [*parts, *(name for name in others if name not in parts)]
    return tuple(name for name in names if parts.get(name) != others.get(name))


def part_kind(name: str, parts: Mapping[str, str], others: Mapping[str, str]) -> str:
    """Return what a part is about: operator name, operator value, operator, dtype, array, iterator, device, option."""
    argument, *rest = name.split(" ")
    of_iterator = rest[:1] == ["op"]
    about = next((word for word in rest if word in PART_KINDS), "")  # a variable's name comes after it
    if name == _COMPUTE_CAPABILITY:
        return "device"
    if about in ("captured", "global"):
        return "operator value"
    if about == "name":
        return "operator name"
    if about in ("code", "state"):
        return "operator"
    if about == "dtype":
        return "dtype"
    kinds = (parts.get(f"{argument} kind", ""), others.get(f"{argument} kind", ""))
    if about == "kind" and (of_iterator or any(map(_is_operator, kinds))):
        return "operator"
    if any("Iterator" in kind for kind in kinds):
        return "iterator"
    return "array" if about == "kind" and all(kinds) else "option"


def _reason(outcome: str, algorithm: str, build: _Build, known: _Known) -> BuildReason:
    if outcome == "wait":
        return BuildReason("wait", "another thread was building it, and this one waited",
                           "build it in one thread before the others need it")
    found = known.nearest(build) if build.parts else None
    if found is None:
        if build.parts:
            return BuildReason("first_use", f"the first {algorithm} that is known to be built", _earlier(algorithm))
        return BuildReason("unknown", "the key of what was asked for is not known")
    nearest, differing = found
    if not differing:
        if build.clears > nearest.clears:
            return BuildReason("cache_cleared", "the very same was built before, and the caches were cleared since",
                               "do not call clear_all_caches() between calls", nearest.build_id)
        return BuildReason("unknown", "the very same was built before; what made it another is not in the recorded key",
                           None, nearest.build_id)
    # The kinds of parts that differ; the parts of another iterator count as the iterator.
    about = {name: part_kind(name, build.parts, nearest.parts) for name in differing}
    replaced = {name.split(" ")[0] for name, kind in about.items() if kind == "iterator"}
    code = _code({"iterator" if name.split(" ")[0] in replaced else kind for name, kind in about.items()})
    sentence = _sentence(code, differing, build.parts, nearest.parts)
    return BuildReason(code, sentence, _fix(code, differing, build.parts, nearest.parts, algorithm), nearest.build_id,
                       differing)


_CODES = {"dtype": "new_dtype", "array": "new_array_type", "iterator": "new_iterator", "device": "new_device",
          "option": "new_option"}


def _code(kinds: set[str]) -> str:
    if kinds == {"operator name"}:
        return "new_operator_name"
    if kinds == {"operator value"}:
        return "new_operator_value"
    if kinds <= {"operator", "operator name", "operator value"}:
        return "new_operator"
    if kinds <= {"iterator", "array", "dtype"} and "iterator" in kinds:
        return "new_iterator"
    return _CODES[next(iter(kinds))] if len(kinds) == 1 and kinds <= set(_CODES) else "several"


def _sentence(code: str, differing: tuple[str, ...], parts: Mapping[str, str], others: Mapping[str, str]) -> str:
    # A part that only one of them has comes with another kind, which says it.
    told = [name for name in differing if name in parts and name in others] or list(differing)
    text = listed([_change(name, parts, others) for name in told[:3]], more=len(told) - 3, between="; ")
    if code == "new_operator_name":
        return f"only the operator's name is new ({text}): the code is the same, and all of it was built again"
    if code == "new_operator_value":
        return f"the operator captures something else ({text})"
    return f"differs from the nearest known build in {text}"


def _change(name: str, parts: Mapping[str, str], others: Mapping[str, str]) -> str:
    was, now = others.get(name), parts.get(name)
    if was is None or now is None:
        return f"{name}: {'not there' if was is None else was} to {'not there' if now is None else now}"
    return f"{name}: {was} to {now}"


def _fix(code: str, differing: tuple[str, ...], parts: Mapping[str, str], others: Mapping[str, str],
         algorithm: str) -> str | None:
    if code == "new_operator_name":
        return "keep one named function and pass it everywhere: its __name__ is part of the key"
    texts = [each.get(name, "") for name in differing for each in (parts, others)]
    if code == "new_operator" and any("OpKind." in text for text in texts):
        return None  # an operator of the library's own is another operation
    if code == "new_operator_value":
        texts = [parts.get(name, others.get(name, "")) for name in differing]
        if any(", object " in text for text in texts):
            return "define what the operator refers to once, outside of the loop and of the cell that is run again"
        if any(", value " in text for text in texts):
            return ("each captured number is compiled in: hold it in a device array, whose elements the operator reads "
                    "when it runs")
        return "each shape of a captured array is compiled in: keep to one shape"
    if code == "new_device":
        ahead = f"make_{algorithm}(..., compute_capability=[...])"
        return f"build for all compute capabilities at once, ahead of time: {ahead}"
    return _FIXES.get(code)


_FIXES = {
    "new_operator": "where both do the same, pass one function",
    "new_dtype": "keep to one dtype, or convert once before the calls",
    "new_array_type": "pass arrays of one library: the arrays' type is part of the key",
    "new_iterator": "pass the same kind of iterator, or an array, in all calls",
    "new_option": "keep to one set of options",
}


def _earlier(algorithm: str) -> str:
    return (f"call make_{algorithm}(...) before it is needed; where each start of a process pays, keep what it returns "
            "with cuda.compute.serialize() and load it with deserialize()")


def _is_operator(kind: str) -> bool:
    return kind == "function" or kind.startswith(("OpKind.", "RawOp")) or ", object " in kind


def _read(columns: Mapping[str, list[Any]], at: int) -> _Build:
    parts = {str(name): str(text) for name, text in json_object(columns["key_parts"][at]).items()}
    clears = json_object(columns["attributes"][at]).get("clears", 0)
    return _Build(at, parts, clears if isinstance(clears, int) else 0)
