"""Tests the C extension on a build of it that is watched: `python watched.py asan|valgrind [arguments of pytest]`.

The package is built once more, into build/asan or build/valgrind, and the tests are copied there, so that processes
which the tests start import the watched build too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
COMPILER_FLAGS = {"asan": f"{SANITIZERS} -fno-omit-frame-pointer -g", "valgrind": "-g"}


def main(tool: str, arguments: list[str]) -> int:
    folder = ROOT / "build" / tool
    shutil.rmtree(folder, ignore_errors=True)
    build(folder, tool)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "timeout=1500", "tests/native",
               "tests/probes/cupti/test_call_lines.py",
               "--ignore=tests/native/test_benchmarks.py", *arguments]
    # With an allocator of Python's own, a block that is used after its end would often be seen as a good one.
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "PYTHONPATH": str(folder), "KERNELSCOPE_WATCHED": tool}
    if tool == "asan":
        environment.update(sanitized(folder))
    else:
        command = ["valgrind", "--quiet", "--error-exitcode=9", "--leak-check=no",
                   f"--suppressions={folder}/tests/native/valgrind.supp", *command]
    status = subprocess.run(command, cwd=folder, env=environment, check=False).returncode
    reports = sorted(folder.glob("report.*"))
    for report in reports:
        print(f"{report}:\n{report.read_text(errors='replace')}", file=sys.stderr)
    return status or bool(reports)


def build(folder: Path, tool: str) -> None:
    """Compile the package into a folder and copy the tests there; a warning of the compiler fails."""
    flags = COMPILER_FLAGS[tool]
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "setup.py", "--quiet", "build", f"--build-lib={folder}",
         f"--build-temp={folder}/objects"],
        cwd=ROOT, check=False, env={**os.environ, "KERNELSCOPE_STRICT": "1", "CFLAGS": flags, "LDFLAGS": flags})
    if made.returncode:
        raise SystemExit(f"the C extension does not compile with {flags}: see above")
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    sources = Path("kernelscope", "native", "csrc")
    shutil.copytree(ROOT / sources, folder / sources, dirs_exist_ok=True)


def sanitized(folder: Path) -> dict[str, str]:
    """The environment of a process that loads a sanitized extension; it says what it finds in files of the folder."""
    # The sanitizer comes first, and then libstdc++, of which it looks for a function at the start and never again.
    libraries = [subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True,
                                check=True).stdout.strip() for name in ("libasan.so", "libstdc++.so.6")]
    log = f"log_path={folder}/report"
    # What CPython keeps to its end is no leak of ours.
    return {"LD_PRELOAD": " ".join(libraries), "ASAN_OPTIONS": f"detect_leaks=0:{log}",
            "UBSAN_OPTIONS": f"print_stacktrace=1:{log}"}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
