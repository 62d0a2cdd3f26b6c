"""Triton on the null driver: kernels from texts, launched with memory of the dry run."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kernelscope import dryrun

# Before Triton is imported. It warns of a default that will change, unless it is set.
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"
dryrun.enable(progress=lambda line: None)

#: One kernel with an argument of every kind.
AXPY = """
import triton
import triton.language as tl


def axpy(x, y, n, a, BLOCK: tl.constexpr{more}):
    i = tl.program_id(0) * BLOCK + tl.arange(0, 16)
    m = i < n
    tl.store(y + i, a * tl.load(x + i, mask=m){body}, mask=m)
"""

Maker = Callable[..., Any]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Maker]:
    """Return what makes a kernel of a text, as running its definition does, in a module of the same name each time.

    ``more`` are further arguments, ``body`` what is added to the value, ``annotate`` an argument and its annotation,
    ``optional`` an argument that may be None; all else goes to ``triton.jit``.
    """
    import triton

    place = f"kernels_{abs(hash(tmp_path))}"  # what other tests have defined was something else

    def definition(source: str = "", *, name: str = "axpy", path: str = "kernels.py", more: str = "", body: str = "",
                   annotate: tuple[str, str] | None = None, optional: str = "", **options: Any) -> Any:
        source = source or AXPY.format(more=more, body=body)
        if annotate is not None:
            source = source.replace(f" {annotate[0]},", f" {annotate[0]}: {annotate[1]},", 1)
        if optional:
            source = source.replace("    tl.store", f"    if {optional} is not None:\n        tl.store")
        file = tmp_path / path
        file.write_text(source)
        module = sys.modules[place] = ModuleType(place)
        exec(compile(source, str(file), "exec"), vars(module))  # a loader would keep the bytecode of the one before
        linecache.checkcache(str(file))
        return triton.jit(getattr(module, name), **options)

    yield definition
    sys.modules.pop(place, None)


@pytest.fixture
def x() -> Any:
    return dryrun.array(4096)
