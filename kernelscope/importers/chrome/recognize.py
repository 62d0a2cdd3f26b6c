"""Recognizes a trace in Chrome's JSON, plain or compressed with gzip, by its first bytes."""

from __future__ import annotations

import zlib
from pathlib import Path

from kernelscope.recording.trace_files import HEAD_BYTES

GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def is_trace(path: Path, head: bytes) -> bool:
    """Return whether the text begins as that of a trace: what comes before its events is short."""
    if head.startswith(GZIP_MAGIC):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
        except zlib.error:
            return False
    # A list of events alone has no keys.
    first = _first_letter(head)
    return (first == b"[" and b'"ph"' in head) or (first == b"{" and b'"traceEvents"' in head)


def may_be_trace(path: Path, head: bytes) -> bool:
    """Return whether it is JSON, or compressed."""
    return head.startswith(GZIP_MAGIC) or _first_letter(head) in (b"{", b"[")


def _first_letter(head: bytes) -> bytes:
    return head.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1]
