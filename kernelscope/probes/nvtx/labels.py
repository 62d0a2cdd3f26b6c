"""What a range was given (message, domain, category, color, payload), as text and without keeping it alive."""

from __future__ import annotations

import re
import sys
from typing import Any

#: Longer texts are cut off.
LONGEST = 1000
_FEW = 8


def label_row(message: Any, color: Any, domain: Any, category: Any, payload: Any) -> dict[str, Any]:
    """Return a range label's row; the arguments are those of ``nvtx.annotate``, in its order."""
    return {
        "name": "" if message is None else _text(message),
        "domain": None if domain is None else _text(domain),
        "category": None if category is None else _text(category),
        "color": _color(color),
        "payload": None if payload is None else _payload(payload),
    }


def hashable(*arguments: Any) -> tuple[Any, ...]:
    """Return a key for arguments that may be no keys themselves, such as an array as payload."""
    return tuple(each if isinstance(each, str | int | float | None) else _payload(each) for each in arguments)


def _text(value: Any) -> str:
    text = value if type(value) is str else str(value)
    # Half a surrogate pair is legal in Python, and in no file.
    return text[:LONGEST].encode("utf-8", "backslashreplace").decode()


def _color(color: Any) -> str | None:
    """A color as #rrggbb. Matplotlib knows more names than nvtx; it is asked only where the user has imported it."""
    if color is None:
        return None
    if isinstance(color, int):
        return f"#{color & 0xFFFFFF:06x}"
    known = getattr(sys.modules.get("nvtx.colors"), "_NVTX_COLORS", {})
    if isinstance(color, str):
        if color in known:
            return f"#{known[color]:06x}"
        if re.fullmatch(r"#[0-9a-fA-F]{6}", color):
            return color.lower()
    colors = sys.modules.get("matplotlib.colors")
    try:
        return str(colors.to_hex(color)) if colors is not None else None
    except (TypeError, ValueError):
        return None


def _payload(value: Any) -> str:
    if isinstance(value, bool):
        return str(bool(value))
    if isinstance(value, int):
        return int.__repr__(value)[:LONGEST] if abs(value) < 1 << 64 else "int"
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, range):
        return repr(value)
    if isinstance(value, bytes):
        return f"bytes[{len(value)}]"
    kind = type(value).__name__
    if isinstance(value, list | tuple):
        items: list[Any] = list(value)
        short = len(items) <= _FEW and all(type(each) in (int, float) for each in items)
        return repr(value) if short and type(value) in (list, tuple) else f"{kind}[{len(items)}]"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{getattr(value, 'dtype', kind)}[{', '.join(str(each) for each in shape)}]"[:LONGEST]
    return kind
