"""The null driver's files call each other downwards only, as the list in driver.h says."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelscope.dryrun import build

FUNCTION = re.compile(r"^([0-9a-f]*) +([A-Za-z]) (\w+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Of each file, the files whose functions or variables it uses, as the linker sees them."""
    folder = tmp_path_factory.mktemp("objects")
    compiler, header = build.find_compiler(), build.find_header()
    build.write_tables(header, folder)

    def symbols(source: Path) -> list[tuple[str, str, str]]:
        compiled = folder / f"{source.stem}.o"
        build.run_compiler(compiler, header, folder, [source], compiled, "-c", "-O0")
        listed = subprocess.run(["nm", str(compiled)], check=True, capture_output=True, text=True)
        return FUNCTION.findall(listed.stdout)

    sources = sorted(build.SOURCES.glob("*.c"))
    with ThreadPoolExecutor() as pool:
        of_file = dict(zip((source.stem for source in sources), pool.map(symbols, sources), strict=True))
    home = {name: file for file, found in of_file.items() for _, kind, name in found if kind in "TDBRC"}
    return {file: {home[name] for _, kind, name in found if kind == "U" and name in home}
            for file, found in of_file.items()}


def layers() -> list[list[str]]:
    """Return the files of each layer, the lowest layer first."""
    comment = (build.SOURCES / "driver.h").read_text().split("*/", 1)[0]
    rows: list[list[str]] = []
    for line in comment.splitlines():
        row = re.match(r" \*   ( {4,}|\w+ +)(.*)$", line)
        if row is None:
            continue
        files = re.findall(r"\w+", re.sub(r"\([^)]*\)", "", row[2]))
        if row[1].strip():
            rows.append(files)
        else:
            rows[-1] += files
    return rows


def test_every_file_is_in_one_layer(calls: dict[str, set[str]]) -> None:
    listed = [file for layer in layers() for file in layer]
    assert sorted(listed) == sorted(calls)


def test_no_file_calls_one_of_a_higher_layer(calls: dict[str, set[str]]) -> None:
    height = {file: number for number, layer in enumerate(layers()) for file in layer}
    assert {(file, used) for file, uses in calls.items() for used in uses if height[used] > height[file]} == set()


def test_no_files_call_each_other_in_a_circle(calls: dict[str, set[str]]) -> None:
    left = dict(calls)
    while ready := [file for file, uses in left.items() if not uses & left.keys() - {file}]:
        for file in ready:
            del left[file]
    assert left == {}
