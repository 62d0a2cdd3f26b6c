"""A recording without source and names, its reasons written again from the neutral names."""

from __future__ import annotations

from typing import Any

from kernelscope.analysis.columns import with_columns
from kernelscope.analysis.compiles import explain
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import redact, without_texts

_WRITTEN = ("reason", "fix", "argument", "nearest_signature")


def redacted(recording: Recording, *, names: bool = True) -> Recording:
    """Return the recording without source, code and names, as `kernelscope.recording.redact.redact` does it.

    Every compile keeps its reason code. Its sentence and fix are made anew from the neutral names; where what they were
    made from is withheld too (what a disk cache held, for example), the sentence says so.

    Parameters
    ----------
    recording : Recording
        It is not changed.
    names : bool
        Whether to take out names too. Without, only the source of cells, code, messages of exceptions and payloads of
        NVTX ranges go.
    """
    if not names:
        return without_texts(recording)
    bare = redact(explain(recording))
    rows = bare.rows("compilations")
    if not rows:
        return bare
    fresh = explain(with_columns(bare, "compilations", {
        "reason_code": [None] * len(rows), "argument": [None] * len(rows), "nearest_signature": [None] * len(rows)}))
    written = [_reason(old, new) for old, new in zip(rows, fresh.rows("compilations"), strict=True)]
    return with_columns(bare, "compilations", {name: [each[name] for each in written] for name in _WRITTEN})


def _reason(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    if old["reason_code"] == new["reason_code"]:
        return new
    return {**old, "reason": f"{old['reason_code'].replace('_', ' ')}: what was said of it is withheld"}
