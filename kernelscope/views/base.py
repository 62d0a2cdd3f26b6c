"""What all views share: numbers with units, shortened and neutralized names, text tables, files written whole."""

from __future__ import annotations

import html
import os
import re
import secrets
import shutil
import textwrap
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kernelscope.errors import RecordingFileError
from kernelscope.progress import Progress as Progress
from kernelscope.units import MISSING, counted, size

# Control characters (terminal escape sequences begin with one), line separators, invisible characters and bidi
# overrides, which show a name as something that it is not; and halves of surrogate pairs, which no output encodes.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_ESCAPED = re.compile(f"{_UNSAFE.pattern}|[&<>\"']")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ELLIPSIS = "…"
_NOTEBOOK_FILE = re.compile(r"(?:^|[/\\])ipykernel_\d+[/\\][^/\\]+$")
_PROMPT_FILE = re.compile(r"^(?:<ipython-input-|In ?\[)(\d+)[-\]]")


def clean(text: object) -> str:
    """Return text in which control, invisible and bidi characters are visible escapes of their codes."""
    return _UNSAFE.sub(_escape, str(text))


def clean_code(text: str) -> str:
    """Return lines of code as `clean` does, with their line breaks and tabs as they are."""
    return re.sub(r"[^\t\n]+", lambda found: clean(found.group()), text)


def escape(text: object) -> str:
    """Return text cleaned and escaped for HTML, for an element or a quoted attribute."""
    known = str(text)
    return html.escape(clean(known), quote=True) if _ESCAPED.search(known) else known


def _escape(found: re.Match[str]) -> str:
    char = found.group()
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def dims(values: Sequence[int | None] | None) -> str:
    """Return a grid or block without trailing ones: ``256``, and 16 times 16; ``unknown`` for None."""
    kept = [each for each in values or () if each is not None]
    if not kept:
        return "unknown"
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return " × ".join(f"{each:,}" for each in kept)  # noqa: RUF001 - the sign of multiplication is meant


#: Modules of code that torch's inductor has generated: the rest of their names, and their files', are hashes.
_GENERATED = "torch._inductor.runtime.compile_tasks."


def defined_at(
    framework: str, module: str | None, filename: str | None, lineno: int | None, frameworks: Sequence[str] = (),
) -> str:
    """Return where a kernel is defined: its module, file and line, without the path of this machine.

    Its framework comes first where it is not numba-cuda, or one of several `frameworks`; of a kernel that no probe
    knows it is the library, where that is known.
    """
    if framework == "driver":
        return module or "unknown library"
    if module is not None and module.startswith(_GENERATED):
        return f"{framework} · generated"
    parts = [framework] if framework != "numba-cuda" or len(frameworks) > 1 else []
    # Beside a file or a cell, __main__ tells nothing.
    parts += [module] if module and not (filename and module == "__main__") else []
    if filename:
        prompt = _PROMPT_FILE.match(filename)
        if prompt:
            name = f"In [{prompt[1]}]"
        elif _NOTEBOOK_FILE.search(filename):
            name = "notebook cell"
        else:
            name = re.split(r"[/\\]", filename)[-1]
        spoken = prompt is not None or name == "notebook cell"
        line = "" if lineno is None else f", line {lineno}" if spoken else f":{lineno}"
        parts.append(name + line)
    return " · ".join(parts) or MISSING


def span(pair: tuple[float, float] | None, unit: str = "") -> str:
    """Return a range of whole numbers: ``32``, ``32 to 40``."""
    if pair is None:
        return MISSING
    low, high = (f"{round(each):,}" for each in pair)
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def percents(pair: tuple[float, float] | None) -> str:
    """Return a range of shares in whole percent: ``50 to 75 %``."""
    return span(None if pair is None else (pair[0] * 100, pair[1] * 100), " %")


def sizes(pair: tuple[int, int] | None) -> str:
    """Return a range of bytes: ``4.0 KiB``, ``96 B to 4.0 KiB``."""
    if pair is None:
        return MISSING
    low, high = size(pair[0]), size(pair[1])
    return low if low == high else f"{low} to {high}"


def stream(handle: int | None, device: int | None = None, owner: str = "") -> str:
    """Return a stream's handle as the CUDA driver names it, and its device where there are several, and whose it is."""
    if handle is None:
        return MISSING
    special = {0: "default", 1: "legacy default", 2: "per-thread default"}
    name = special.get(handle) or shorten(hex(handle), 12)
    return name if device is None else f"{name} on device {device}{f' of {owner}' if owner else ''}"


def width_of(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(char) in ("Mn", "Me", "Cf")
        else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


#: So many letters, accents and joiners included, are taken to fill a column.
_NARROWEST = 4


def shorten(text: str, width: int) -> str:
    """Return text that takes at most `width` columns, with an ellipsis in its middle where it was longer.

    Of a C++ template the first argument that says something is kept: ``vectorized_el…<FillFunctor<fl…``.
    """
    if len(text) > _NARROWEST * (width + 1):  # of a very long one only the ends are looked at
        text = text[:_NARROWEST * width] + text[-_NARROWEST * width:] if width > 0 else text[:1]
    if width_of(text) <= width:
        return text
    if width <= 1:
        return _ELLIPSIS[:width]
    template = _TEMPLATE.fullmatch(text) if width >= _LEAST_TEMPLATE else None
    if template is not None:
        function, arguments = template.groups()
        function = function if len(function) <= width // 2 else function[:width // 2 - 1] + _ELLIPSIS
        fitting = f"{function}<{arguments}>"
        return fitting if width_of(fitting) <= width else _fitting(fitting, width - 1) + _ELLIPSIS
    tail_width = (width - 1) // 2
    head = _fitting(text, width - 1 - tail_width)
    tail = _fitting(text[::-1], tail_width)[::-1]
    return f"{head}{_ELLIPSIS}{tail}"


#: A C++ function with template arguments: its name, and these from the first one that is no number and no plain type.
_TEMPLATE = re.compile(
    r"(\w+)<(?:(?:\d+[ul]*|true|false|u?int\w*|unsigned \w+|long|float|double|bool|\w+Metadata<[^<>]*>), )*(.+)>",
    re.DOTALL)
_LEAST_TEMPLATE = 12

_MOST_LETTERS = 2_000


def cut(text: str) -> str:
    """Return a text of the user's without its middle where it is longer than any name or type that can be read."""
    if len(text) <= _MOST_LETTERS:
        return text
    return f"{text[:_MOST_LETTERS // 2]}{_ELLIPSIS}{text[1 - _MOST_LETTERS // 2:]}"


#: An attribute of a picture whose letters are as wide as `drawn_width` says; others are rounded to whole pixels.
EXACT_LETTERS = "text-rendering='geometricPrecision'"


def drawn_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return how wide a text of a picture is at most: what is measured nowhere is taken to be in a wide font.

    Parameters
    ----------
    text : str
        One line.
    size : float
        The font's size in pixels.
    bold : bool
        Whether it is in bold type.

    Returns
    -------
    float
        Pixels: the width in DejaVu Sans. Verdana is as wide, and other fonts of screens are narrower.
    """
    advance = sum(_ADVANCES[ord(char) - 32] if " " <= char <= "~" else _OTHER_ADVANCES.get(char, 1000 * width_of(char))
                  for char in text)
    return advance * size / 1000 * (_BOLD if bold else 1.0)


def fitted(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """Return text that takes at most `room` pixels of a picture, with an ellipsis in its middle where it was longer."""
    text = cut(text)
    if drawn_width(text, size, bold=bold) <= room:
        return text
    # The lengths that fit come before those that do not.
    most = bisect_right(range(1, width_of(text)), room,
                        key=lambda width: drawn_width(shorten(text, width), size, bold=bold))
    return shorten(text, most)


# Of ASCII's printable characters, of others that pictures have often, and of bold letters over plain ones.
_ADVANCES = (
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636,
    636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295,
    295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838,
    500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521,
    392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
)
_OTHER_ADVANCES = {"·": 318, "µ": 636, "×": 838}  # noqa: RUF001 - the sign of multiplication is meant
_BOLD = 1.16


def _fitting(text: str, width: int) -> str:
    taken = 0
    for at, char in enumerate(text):
        taken += width_of(char)
        if taken > width:
            return text[:at]
    return text


# Tables and paragraphs of text for a terminal.

INDENT = "  "


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, left: Sequence[int] = (0,),
    flexible: int = 0, below: Sequence[Sequence[str]] | None = None, above: Sequence[str] | None = None,
) -> str:
    """Return aligned columns: numbers right, those in `left` left; the `flexible` one gives way where it is too wide.

    Lines of `below` come below their row, further in. A line of `above` comes above its row; an empty one does not.
    """
    widths = [
        max(width_of(header), *(width_of(row[place]) for row in rows)) if rows else width_of(header)
        for place, header in enumerate(headers)
    ]
    others = sum(each for place, each in enumerate(widths) if place != flexible)
    room = width - len(INDENT) - others - 2 * (len(widths) - 1)
    widths[flexible] = max(min(widths[flexible], room), min(widths[flexible], 12))

    def line(cells: Sequence[str]) -> str:
        padded: list[str] = []
        for place, cell in enumerate(cells):
            text = shorten(cell, widths[place])
            gap = " " * (widths[place] - width_of(text))
            padded.append(text + gap if place in left else gap + text)
        return (INDENT + "  ".join(padded)).rstrip()

    lines = [line(headers)]
    for place, row in enumerate(rows):
        if above is not None and above[place]:
            lines.append(INDENT + shorten(above[place], width - len(INDENT)))
        lines.append(line(row))
        if below is not None:
            lines += [INDENT * 2 + text for text in below[place]]
    return "\n".join(lines)


def rest(total: int, shown: int, noun: str) -> str:
    """Return the line that says how many are left out, behind a line break, or an empty string."""
    return f"\n{INDENT}and {counted(total - shown, f'more {noun}')}" if total > shown else ""


def wrap(text: str, width: int, indent: int = 0, hanging: int = 5) -> str:
    """Return text in lines of at most `width` columns, those after the first `hanging` columns further in."""
    return textwrap.fill(
        text, width, initial_indent=" " * indent, subsequent_indent=" " * (indent + hanging),
        break_on_hyphens=False,
    )


def with_notice(notice: str, text: str) -> str:
    """Return text below what every output of its recording must say."""
    return f"*** {clean(notice)} ***\n{text}" if notice else text


def columns(width: int | None) -> int:
    """Return the columns to keep to, at least 60; without a wish the terminal's, between 80 and 120."""
    if width is not None:
        return max(width, 60)
    return min(max(shutil.get_terminal_size((100, 24)).columns, 80), 120)


# Files and folders that appear whole or not at all.


@contextmanager
def whole_file(path: str | Path) -> Generator[IO[bytes]]:
    """Give a file to write; at the end of the block it takes the place of `path`, and of a file that was there.

    Raises
    ------
    RecordingFileError
        It cannot be written. Whatever ends the block early, Ctrl-C included, leaves nothing behind.
    """
    target = checked(path)
    if target.is_dir():
        raise RecordingFileError(f"cannot write {target}: a folder has that name")
    partial = _beside(target)
    try:
        with open(partial, "xb") as file:
            yield file
        os.replace(partial, target)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise RecordingFileError(f"cannot write {target}: {error.strerror or error}") from error
        raise


@contextmanager
def whole_folder(path: str | Path, names: Collection[str]) -> Generator[Path]:
    """Give a folder to write `names` into; at the end of the block it takes the place of `path`.

    A folder that is there is replaced only if it holds nothing but files of these names, as an earlier export does.

    Raises
    ------
    RecordingFileError
        It cannot be written, or something else is in the way.
    """
    target = checked(path)
    if target.exists() and not target.is_dir():
        raise RecordingFileError(f"cannot write {target}: a file has that name; tables need a folder")
    foreign = sorted({each.name for each in target.iterdir()} - {*names}) if target.is_dir() else []
    if foreign:
        raise RecordingFileError(f"cannot write {target}: the folder holds {foreign[0]!r}, which is no part of such an "
                                 "export; give another folder")
    partial, old = _beside(target), _beside(target)
    try:
        partial.mkdir()
        yield partial
        if target.is_dir():
            os.rename(target, old)
        os.rename(partial, target)
    except BaseException as error:
        if old.exists() and not target.exists():
            os.rename(old, target)
        if isinstance(error, OSError):
            raise RecordingFileError(f"cannot write {target}: {error.strerror or error}") from error
        raise
    finally:
        for left in (partial, old):
            shutil.rmtree(left, ignore_errors=True)


def write_text(path: str | Path, suffix: str, text: str) -> Path:
    """Write a text file whole, with the suffix added to a name without one, and return its path; see `whole_file`."""
    target = checked(path)
    if not target.suffix:
        target = target.with_suffix(suffix)
    with whole_file(target) as file:
        file.write(text.encode("utf-8"))
    return target


def checked(path: str | Path) -> Path:
    """Return where to write, after what can be known beforehand has been checked.

    Raises
    ------
    RecordingFileError
        The path names nothing, its folder does not exist, or it would take the place of a recording.
    """
    try:
        target = Path(path).expanduser()
    except RuntimeError as error:
        raise RecordingFileError(f"cannot tell whose home folder {str(path)!r} means: {error}") from None
    if not target.name:
        raise RecordingFileError(f"{str(path)!r} names no file")
    from kernelscope.recording.file import SUFFIX  # what shows a terminal's text needs no Parquet

    if target.suffix == SUFFIX:
        raise RecordingFileError(f"{target.name!r} is a recording's name; give an export another suffix")
    if not target.parent.is_dir():
        raise RecordingFileError(f"cannot write {target.name}: there is no folder {target.parent}")
    return target


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[:100]}-{secrets.token_hex(6)}.partial")
