"""Finding ``cuda.h``, which the null driver is compiled against."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from kernelscope.errors import DryRunError

OLDEST_VERSION = 12080
"""Older headers lack types that the null driver uses."""

_DEFAULT_ROOT = "/usr/local/cuda"


class CudaHeader(NamedTuple):
    """The folder that ``cuda.h`` is in, and the CUDA version that it states, such as 13000."""

    folder: str
    version: int


def find_header() -> CudaHeader:
    """Return the first ``cuda.h`` that is new enough.

    It looks where the CUDA wheels and conda packages put it (as `cuda.pathfinder` knows), then in ``CUDA_HOME``,
    ``CUDA_PATH`` and ``/usr/local/cuda``.

    Raises
    ------
    DryRunError
        If there is none.
    """
    seen: list[str] = []
    for folder in _folders():
        version = _version(folder / "cuda.h")
        if version is not None and version >= OLDEST_VERSION:
            return CudaHeader(str(folder), version)
        seen.append(f"{folder} (CUDA {version // 1000}.{version % 1000 // 10})" if version else str(folder))
    raise DryRunError(
        "the dry run needs cuda.h of CUDA 12.8 or newer: pip install 'kernelscope[cu13]' brings it; "
        f"looked in {', '.join(seen)}"
    )


def _folders() -> list[Path]:
    folders = [Path(folder) for folder in _pathfinder_folders()]
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), _DEFAULT_ROOT]
    folders += [Path(root) / "include" for root in roots if root]
    return folders


def _pathfinder_folders() -> list[str]:
    try:
        from cuda import pathfinder
    except ImportError:
        return []
    located = pathfinder.locate_nvidia_header_directory("cudart")
    return [located.abs_path] if located is not None and located.abs_path else []


def _version(header: Path) -> int | None:
    """Return what a ``cuda.h`` defines as CUDA_VERSION; None without a readable one."""
    try:
        with open(header, encoding="utf-8", errors="replace") as file:
            found = re.search(r"^#define CUDA_VERSION (\d+)$", file.read(65536), re.MULTILINE)
    except OSError:
        return None
    return int(found.group(1)) if found else None
