"""Why each compile was needed, and what would avoid it.

`explain` reads what the probe noted about a compile (which signatures and launch configurations its dispatcher
had before) and writes ``reason_code``, ``reason`` and ``fix`` into ``compilations``. The codes:

``first_signature``
    The dispatcher had no specialization.
``new_dtype``, ``new_layout``, ``new_dimensions``, ``new_type``
    An argument differs from the nearest known signature's in its dtype, in its memory layout (or write access),
    in its number of dimensions, or altogether.
``launch_config``
    The kernel is launch-config sensitive (LC-S) and had not run with this launch configuration.
``specialize``
    ``forall`` or ``specialize`` made a dispatcher of its own.
``eager``
    The signature is declared in ``@cuda.jit``.
``redefined``
    The definition ran again, which makes a dispatcher without specializations.
``recompile``
    ``recompile()`` was called.
``wait``
    It was not compiled: another thread compiled it meanwhile.
``disk``, ``disk_unsafe``, ``cache_absent``, ``cache_stale``, ``cache_unwritable``, ``new_device``
    See `kernelscope.analysis.cache_reasons`.
``unknown``
    What was recorded does not tell.

A reason that a probe has already filled in is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelscope.analysis import cache_reasons
from kernelscope.analysis.columns import json_object, with_columns
from kernelscope.analysis.fixes import fix_for
from kernelscope.analysis.signatures import SEVERITY, Difference, nearest
from kernelscope.recording.model import Recording

#: Every reason code.
REASON_CODES = (
    "first_signature", "new_dtype", "new_layout", "new_dimensions", "new_type", "launch_config", "specialize",
    "eager", "redefined", "recompile", *cache_reasons.CODES, "wait", "unknown",
)


@dataclass(frozen=True)
class Reason:
    """Why a compile was needed: a code, a sentence that names the values, and what would avoid it."""

    code: str
    sentence: str
    fix: str | None


@dataclass
class _Known:
    """What one dispatcher had compiled so far, in this recording and before."""

    signatures: dict[str, None] = field(default_factory=dict[str, None])
    configurations: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def add(self, signature: str, configuration: str | None) -> None:
        self.signatures[signature] = None
        if configuration is not None:
            self.configurations.setdefault(signature, []).append(configuration)


def explain(recording: Recording) -> Recording:
    """Return a copy of the recording in which every compilation has a reason code, a reason and a fix."""
    rows = recording.rows("compilations")
    if all(row["reason_code"] is not None for row in rows):
        return recording
    configurations = {row["configuration_id"]: _configuration(row) for row in recording.rows("configurations")}
    known: dict[int, _Known] = {}
    for row in recording.rows("specializations"):
        if row["origin"] == "before":
            held = known.setdefault(row["dispatcher_id"], _Known())
            held.add(row["signature"], _configuration_text(row["launch_config"]))

    reasons: list[Reason] = []
    for row in rows:
        held = known.setdefault(row["dispatcher_id"], _Known())
        configuration = configurations.get(row["configuration_id"])
        if row["reason_code"] is None:
            reasons.append(_reason(row, held, configuration))
        else:
            reasons.append(Reason(row["reason_code"], row["reason"], row["fix"]))
        # A specialized dispatcher keeps its overload to itself.
        if row["outcome"] in ("compiled", "disk") and row["trigger"] != "specialize":
            held.add(row["signature"], configuration if row["launch_config_sensitive"] else None)
    return with_columns(recording, "compilations", {
        "reason_code": [reason.code for reason in reasons],
        "reason": [reason.sentence for reason in reasons],
        "fix": [reason.fix for reason in reasons],
    })


def _reason(row: Mapping[str, Any], held: _Known, configuration: str | None) -> Reason:
    attributes = json_object(row["attributes"])
    signature = str(row["signature"])
    signatures = [*held.signatures, *_texts(attributes.get("known_signatures"))]
    tried = [
        *held.configurations.get(signature, []),
        *(_configuration_text(each) or "?" for each in _items(attributes.get("known_configurations"))),
    ]
    code, sentence, difference = _cause(row, attributes, signatures, tried, configuration)
    code, sentence = cache_reasons.with_disk(row, attributes, code, sentence)
    if row["outcome"] == "failed" and not cache_reasons.failed_in_cache(attributes):
        error = row["error"] or "it raised"
        return Reason(code, f"{sentence}; the compile failed: {error}", fix_for("failed", row, difference))
    return Reason(code, sentence, fix_for(code, row, difference, attributes))


def _cause(
    row: Mapping[str, Any], attributes: Mapping[str, Any], signatures: list[str], tried: list[str],
    configuration: str | None,
) -> tuple[str, str, Difference | None]:
    signature = str(row["signature"])
    simple = _without_comparison(row, attributes)
    if simple is not None:
        return (*simple, None)
    if row["launch_config_sensitive"] and tried and configuration not in tried:
        sentence = (
            f"the kernel depends on its launch configuration (LC-S); {configuration or 'this one'} is new for these "
            f"types, compiled before: {_few(tried)}"
        )
        return "launch_config", sentence, None
    if not signatures:
        if attributes.get("redefined"):
            sentence = (
                "the definition ran again, which makes a new dispatcher without specializations; the one before is "
                "not used"
            )
            return "redefined", sentence, None
        return "first_signature", "the kernel had no specialization yet: this is its first", None
    found = nearest(signature, signatures)
    if found is None or not found[1]:
        return "unknown", "the kernel had a specialization for these types already; the record tells no more", None
    worst = max(found[1], key=lambda each: (SEVERITY.index(each.code), -each.position))
    return worst.code, _difference_sentence(worst, found[1]), worst


def _without_comparison(row: Mapping[str, Any], attributes: Mapping[str, Any]) -> tuple[str, str] | None:
    """Causes that need no look at other signatures."""
    outcome, trigger = row["outcome"], row["trigger"]
    if outcome == "disk":
        return cache_reasons.disk_hit(attributes)
    if trigger == "device":
        return cache_reasons.new_device(attributes)
    if outcome == "wait":
        return "wait", "not compiled: another thread was compiling it for these types, and this one waited"
    if trigger == "eager":
        return "eager", "the signature is declared in @cuda.jit, which compiles it at the definition"
    if trigger == "specialize":
        return "specialize", (
            "forall or specialize made a dispatcher of its own for these types, which shares no specialization with "
            "launches of kernel[griddim, blockdim]"
        )
    if trigger == "recompile":
        return "recompile", "recompile() was called: it compiles every signature again"
    return None


def _difference_sentence(worst: Difference, found: tuple[Difference, ...]) -> str:
    if worst.position < 0:
        return f"the kernel was given {worst.wanted}; the nearest known signature has {worst.known}"
    sentence = f"argument {worst.position} is {worst.wanted}; the nearest known signature has {worst.known}"
    others = [str(each.position) for each in found if each is not worst]
    if others:
        sentence += f" (argument{'' if len(others) == 1 else 's'} {_few(others)} differ{'s' * (len(others) == 1)} too)"
    return sentence


def _configuration(row: Mapping[str, Any]) -> str:
    """A row of ``configurations`` without its stream, which no specialization depends on."""
    grid = tuple(row[f"griddim_{axis}"] for axis in "xyz")
    block = tuple(row[f"blockdim_{axis}"] for axis in "xyz")
    return _described(grid, block, row["sharedmem_bytes"])


def _configuration_text(value: object) -> str | None:
    """A launch configuration noted as JSON, in the same words as `_configuration` where it has its keys."""
    if value is None:
        return None
    held = json_object(value if isinstance(value, str) else json.dumps(value))
    grid, block = held.get("griddim"), held.get("blockdim")
    if not isinstance(grid, list) or not isinstance(block, list):
        return str(value)
    return _described(tuple(_items(grid)), tuple(_items(block)), held.get("sharedmem_bytes", held.get("sharedmem", 0)))


def _described(grid: tuple[Any, ...], block: tuple[Any, ...], sharedmem: object) -> str:
    shared = f", {sharedmem} B shared" if sharedmem else ""
    return f"[{_dims(grid)}, {_dims(block)}{shared}]"


def _dims(dims: tuple[Any, ...]) -> str:
    padded = [*dims, 1, 1][:3]
    while len(padded) > 1 and padded[-1] == 1:
        padded.pop()
    return str(padded[0]) if len(padded) == 1 else f"({', '.join(str(each) for each in padded)})"


def _few(texts: list[str], most: int = 3) -> str:
    """The last of some texts, and how many more there are."""
    distinct = list(dict.fromkeys(texts))
    shown = ", ".join(distinct[-most:])
    return shown if len(distinct) <= most else f"{shown} and {len(distinct) - most} more"


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, list) else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _texts(value: object) -> list[str]:
    return [str(each) for each in _items(value)]
