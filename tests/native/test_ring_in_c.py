"""The ring by itself, with threads and without Python: what a build without a global lock relies on."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "kernelscope" / "native" / "csrc"
GROW, RING, STOP = "0", "1", "2"

pytestmark = pytest.mark.skipif("KERNELSCOPE_WATCHED" in os.environ, reason="it watches itself")


@pytest.fixture(scope="module", params=["plain", "thread", "address,undefined"])
def stress(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stress test, compiled by itself and with the sanitizers that work here."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None and "CI" not in os.environ:
        pytest.skip("no C compiler")
    built = tmp_path_factory.mktemp("ring") / "ring_stress"
    command = [str(compiler), "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-DKS_THREADS=1",
               "-pthread", f"-I{SOURCES}", str(HERE / "ring_stress.c"),
               *(str(SOURCES / f"{name}.c") for name in ("ring", "memory", "clock")), "-o", str(built)]
    sanitizer = "-O2" if request.param == "plain" else f"-fsanitize={request.param}"
    program = ["-xc", "-", "-pthread", "-o"]
    tried = subprocess.run([str(compiler), sanitizer, *program, str(built)], input="int main(void) { return 0; }",
                           text=True, capture_output=True, check=False)
    if tried.returncode or subprocess.run([built], env=sanitized(), capture_output=True, check=False).returncode:
        pytest.skip(f"a sanitizer does not work here: {sanitizer}: {tried.stderr}")
    made = subprocess.run([*command, sanitizer], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return built


def sanitized() -> dict[str, str]:
    """The environment, without what watches this process."""
    return {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "ASAN_OPTIONS")}


@pytest.mark.parametrize(("mode", "capacity", "in_file"), [
    (GROW, 0, True), (RING, 1, False), (RING, 1000, False), (RING, 10_000, True), (STOP, 20_000, True),
    (STOP, 10**6, False)])
def test_every_launch_once_and_whole(stress: Path, tmp_path: Path, mode: str, capacity: int, in_file: bool) -> None:
    # Sanitizers have locks of their own, which a child that was forked among threads may find held for ever.
    slow = any(name in stress.read_bytes() for name in (b"__tsan_init", b"__asan_init"))
    each, forks = 3100 if slow else 20_000, 0 if slow else 4
    file = tmp_path / "slots"
    done = subprocess.run([stress, mode, str(capacity), str(each), str(forks), *([str(file)] if in_file else [])],
                          env=sanitized(), capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "whole\n", "")
    if in_file:
        slots = min(capacity or 8 * each, 8 * each)
        assert file.stat().st_size == 4096 + -(-slots // 4096) * 4096 * 64
