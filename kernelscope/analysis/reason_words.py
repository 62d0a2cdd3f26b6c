"""How arguments differ, as words: what each one was and what it is, by its Python name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernelscope.analysis.arguments import known_name
from kernelscope.analysis.differences import Difference
from kernelscope.analysis.signatures import ArgumentType, record_fields

#: So many arguments are named beside the worst one.
_MOST = 3
_LONG_TYPE, _LONG_NAME = 100, 40

NUMPY_SCALAR = re.compile(r"^(?:u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128))$")
PYTHON_SCALAR = {"int64": "int", "float64": "float", "complex128": "complex", "bool": "bool", "boolean": "bool"}

_FROM_C = {"F": 'column-major, as of .T and order="F"', "A": "not contiguous"}
_FROM_F = {"C": "row-major, as NumPy's arrays are", "A": "not contiguous"}


def differ(found: Sequence[Difference], names: tuple[str, ...], where: str) -> str:
    """Return the sentence about all differences of two signatures, worst first.

    Parameters
    ----------
    found : sequence of Difference
        At least one, worst first.
    names : tuple of str
        The arguments' Python names, as far as they are known.
    where : str
        Where the known types are from, such as "the nearest known specialization".
    """
    worst = found[0]
    if worst.position < 0:
        return f"the kernel was given {worst.wanted.text}; {where} has {worst.known.text}"
    sentence = f"{argument(worst, names)} is {_described(worst.wanted)}; {where} has {_described(worst.known)}"
    explained = _aspects(worst)
    if explained:
        sentence += f": {explained}"
    others = found[1:]
    if others:
        listed = ", ".join(f"{quoted(each.position, each.path, names)} ({_brief(each)})" for each in others[:_MOST])
        more = f" and {len(others) - _MOST} more" if len(others) > _MOST else ""
        sentence += f"; {listed}{more} differ{'s' if len(others) == 1 else ''} too"
    return sentence


def argument(difference: Difference, names: tuple[str, ...]) -> str:
    """Return how to call the argument: "argument `x`", "argument `t[1]`", or "argument 2" without a name."""
    return f"argument {quoted(difference.position, difference.path, names)}"


def quoted(position: int, path: Sequence[int], names: tuple[str, ...]) -> str:
    """Return an argument's name, or that of an element of it: "`x`", "`t[1]`", or its number where it has none."""
    name = known_name(names, position)
    inner = "".join(f"[{at}]" for at in path)
    if name is None:
        return f"{position}{inner}"
    cut = name if len(name) <= _LONG_NAME else f"{name[:_LONG_NAME - 1]}…"
    return f"`{cut}{inner}`"


def short(kind: ArgumentType) -> str:
    """Return a type as numba prints it, cut in the middle where it is long; records by their fields."""
    text = "None" if kind.kind == "none" else kind.text
    if kind.kind == "array":
        text = text.replace(kind.dtype, _dtype(kind.dtype), 1)
    elif kind.kind == "record":
        text = _dtype(text)
    return text if len(text) <= _LONG_TYPE else f"{text[:_LONG_TYPE // 2]}…{text[-_LONG_TYPE // 2:]}"


def scalar(dtype: str) -> str:
    """Return a scalar's type and what has it: "int64, as a Python int is", or "np.int32"."""
    python = PYTHON_SCALAR.get(dtype)
    if python == "bool":
        return "bool"
    if python:
        return f"{dtype}, as a Python {python} is"
    return f"np.{dtype}" if NUMPY_SCALAR.match(dtype) else dtype


def _aspects(difference: Difference) -> str:
    """In what the two types differ, where that is more than that they do."""
    return ", ".join(filter(None, (_aspect(each, difference.wanted, difference.known) for each in difference.aspects)))


def _aspect(aspect: str, new: ArgumentType, old: ArgumentType) -> str:
    if aspect == "new_dimensions":
        return f"other dimensions ({old.ndim} to {new.ndim})"
    if aspect == "new_dtype":
        fields = _changed_fields(new.dtype, old.dtype)
        return fields or f"another dtype ({_dtype(old.dtype)} to {_dtype(new.dtype)})"
    if aspect == "new_layout":
        return f"another layout ({_layout(new, old)})"
    if aspect == "new_access":
        return "read-only, not writable" if new.readonly else "writable, not read-only"
    if aspect == "new_alignment":
        return _alignment(new, old)
    if aspect == "tuple_arity":
        return f"another number of elements ({len(old.elements)} to {len(new.elements)})"
    return ""


def _brief(difference: Difference) -> str:
    """What differs, for the arguments that are not the worst."""
    new, old = difference.wanted, difference.known
    if new.kind != "array" or old.kind != "array":
        return f"{short(old)} to {short(new)}"
    dtype = _changed_fields(new.dtype, old.dtype) or f"{_dtype(old.dtype)} to {_dtype(new.dtype)}"
    parts = {
        "new_dimensions": f"{old.ndim} to {new.ndim} dimensions", "new_dtype": dtype,
        "new_layout": f"layout {old.layout} to {new.layout}",
        "new_access": "read-only" if new.readonly else "writable",
        "new_alignment": "aligned" if new.aligned else "unaligned",
    }
    return ", ".join(parts[aspect] for aspect in difference.aspects)


def _layout(new: ArgumentType, old: ArgumentType) -> str:
    hint = {"C": _FROM_C, "F": _FROM_F}.get(old.layout, {}).get(new.layout)
    if old.layout == "A":
        hint = "contiguous; the known one is strided"
    return f"{old.layout} to {new.layout}" + (f": {hint}" if hint else "")


def _alignment(new: ArgumentType, old: ArgumentType) -> str:
    if record_fields(new.dtype) is None:
        return "aligned, not unaligned" if new.aligned else "unaligned, not aligned"
    if new.aligned == old.aligned:
        return "the same fields at other places in memory"
    packed = "without align=True in its np.dtype"
    return f"records whose fields are aligned, not packed ({packed})" if new.aligned else (
        f"packed records ({packed}), not aligned ones")


def _changed_fields(new: str, old: str) -> str:
    """Of two record types the fields that differ; nothing for other types."""
    fields, known = record_fields(new), record_fields(old)
    if fields is None or known is None:
        return ""
    changed = [f"`{name}` {known[name]} to {kind}" for name, kind in fields.items()
               if name in known and known[name] != kind]
    changed += [f"`{name}` is new" for name in fields if name not in known]
    changed += [f"`{name}` is gone" for name in known if name not in fields]
    more = f" and {len(changed) - _MOST} more" if len(changed) > _MOST else ""
    return f"another dtype (field {', '.join(changed[:_MOST])}{more})" if changed else "its fields in another order"


def _dtype(text: str) -> str:
    fields = record_fields(text)
    if fields is None:
        return text if len(text) <= _LONG_TYPE else f"{text[:_LONG_TYPE]}…"
    listed = ", ".join(f"{name} {kind}" for name, kind in list(fields.items())[:_MOST])
    more = f", {len(fields) - _MOST} more" if len(fields) > _MOST else ""
    return f"record({listed}{more})"


def _described(kind: ArgumentType) -> str:
    """A type of whatever kind, with what has it where that is not plain."""
    if kind.kind == "scalar":
        return scalar(kind.dtype)
    if kind.kind == "none":
        return "None"
    if kind.kind == "enum":
        return f"a member of an enum, {short(kind)}"
    if kind.text == "unicode_type":
        return "a str"
    if kind.kind == "tuple":
        return f"the {'named ' if kind.name else ''}tuple {short(kind)}"
    return short(kind)
