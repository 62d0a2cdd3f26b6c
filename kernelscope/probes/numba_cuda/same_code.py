"""Whether two compiles made the same code: LLVM and PTX compared without what differs from process to process.

numba's names carry a count of the functions that were compiled before, a module's record types are numbered, and the
libraries that a kernel calls stand in any order. So symbols that are defined in the text are numbered in the order in
which they are met, from the kernel on; debug information and other metadata, linkage and comments are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_SYMBOL = re.compile(r'@"((?:[^"\\]|\\.)*)"|@([\w.$-]+)')
_DEFINED = re.compile(r'^(?:@"(?P<global>[^"]*)"|@(?P<plain>[\w.$-]+)) =|^define\b[^@]*@(?:"(?P<quoted>[^"]*)"|'
                      r'(?P<bare>[\w.$-]+))', re.MULTILINE)
_METADATA = re.compile(r",? !(?:dbg|range|prof|tbaa|srcloc) ![0-9]+|![0-9]+")
_LINKAGE = re.compile(r"^define (?:linkonce_odr|weak_odr|linkonce|weak|internal|private) ", re.MULTILINE)
_INLINING = re.compile(r" (?:alwaysinline|noinline)\b")
_LOCAL = re.compile(r'%"[^"]*"|%[\w.$-]+')
#: Names that numba or NVVM made up, registers, and blocks.
_PTX_NAME = re.compile(r"[\w$]*\$[\w$]*|\b_\w+|%[a-z]+\d+")
#: Lines of debug information, and what says nothing about the code.
_PTX_LEFT_OUT = (".loc", ".file", ".version", ".reg", ".section", ".b8", ".b16", ".b32", ".b64")


def same_llvm(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two lists of LLVM modules, a kernel's own first, say the same."""
    first, second = _canonical(one), _canonical(other)
    # The second comparison takes a text in another order for the same: better a change missed than one invented.
    return first == second or _bag(first) == _bag(second)


def same_ptx(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two lists of PTX texts have the same instructions and constants, in whatever order."""
    return _ptx_lines(one) == _ptx_lines(other)


def _canonical(modules: Sequence[str]) -> str:
    """The modules that the first one reaches, in the order in which it does, with numbers for names."""
    home: dict[str, int] = {}
    for at, text in enumerate(modules):
        for found in _DEFINED.finditer(text):
            home.setdefault(next(name for name in found.groups() if name is not None), at)
    numbers: dict[str, int] = {}
    waiting, seen, written = [0], {0}, []

    def name(found: re.Match[str]) -> str:
        symbol = found[1] if found[1] is not None else found[2]
        if symbol not in home:
            return f"@{symbol}"
        at = home[symbol]
        if at not in seen:
            seen.add(at)
            waiting.append(at)
        return f"@#{numbers.setdefault(symbol, len(numbers))}"

    while waiting:
        text = "\n".join(line for line in modules[waiting.pop(0)].splitlines() if line[:1] not in (";", "!"))
        text = _INLINING.sub("", _METADATA.sub("", _LINKAGE.sub("define ", text)))
        written.append(_SYMBOL.sub(name, text))
    return "\n".join(written)


def _bag(text: str) -> Counter[str]:
    """The lines of a text in no order, without the names of values and symbols."""
    return Counter(re.sub(r"@#\d+", "@", _LOCAL.sub("%", line)).strip() for line in text.splitlines())


def _ptx_lines(texts: Sequence[str]) -> Counter[str]:
    lines = (line.split("//")[0].strip() for text in texts for line in text.splitlines())
    return Counter(_PTX_NAME.sub("@", line) for line in lines
                   if line and not line.startswith(_PTX_LEFT_OUT))
