"""The C extension that records, kernelscope.native._core, which is required, and the file that Python runs first.

KERNELSCOPE_STRICT=1 makes every warning of the compiler an error. All else about the package stands in pyproject.toml.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

# Setuptools takes the sources by names relative to this folder, which is where it runs.
SOURCES = Path("kernelscope", "native", "csrc")
# Without a global lock the ring's counters have to be atomic.
THREADS = [("KS_THREADS", "1")] if sysconfig.get_config_var("Py_GIL_DISABLED") else []
WARNINGS = ["-Wall", "-Wextra"] + ["-Werror"] * (os.environ.get("KERNELSCOPE_STRICT") == "1")
PACKAGES = "install gcc and Python's headers (Debian, Ubuntu: apt install gcc python3-dev; Fedora: dnf install gcc " \
           "python3-devel; Alpine: apk add gcc musl-dev python3-dev)"


# What Python runs when it starts, from a file beside the package: no more than a look at the environment, unless that
# asks for a recording. See kernelscope_at_start.py.
START = "kernelscope.pth", (
    'import os; os.environ.get("KERNELSCOPE_RECORD") and __import__("kernelscope_at_start").wait()\n')


class BuildPy(build_py):
    """Puts the file that Python runs when it starts at the root of the wheel, also of one for an editable install."""

    def run(self) -> None:
        """Copy the package, and write the file."""
        super().run()
        # What is unpacked there becomes the editable wheel; `build_lib` becomes any other.
        root = self.distribution.get_command_obj("install").install_lib if self.editable_mode else self.build_lib
        name, line = START
        Path(root, name).write_text(line, encoding="ascii")


class BuildExt(build_ext):
    """Says in one line what is missing, where there is no C compiler or Python has no headers."""

    def build_extensions(self) -> None:
        """Look for both, and build."""
        compiler, header = self.compiler.compiler_so[0], Path(sysconfig.get_path("include"), "Python.h")
        if shutil.which(compiler) is None:
            raise SystemExit(f"KernelScope needs a C compiler to build, and there is no {compiler}: {PACKAGES}")
        if not header.is_file():
            raise SystemExit(f"KernelScope needs Python's headers to build, and there is no {header}: {PACKAGES}")
        super().build_extensions()


setup(
    cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
    ext_modules=[
        Extension(
            "kernelscope.native._core",
            sources=sorted(str(path) for path in SOURCES.glob("*.c")),
            depends=sorted(str(path) for path in SOURCES.glob("*.h")),
            define_macros=[("_GNU_SOURCE", "1"), *THREADS],
            extra_compile_args=["-O2", "-std=c11", *WARNINGS, "-fvisibility=hidden", "-pthread"],
            extra_link_args=["-pthread"],
            language="c",
        )
    ],
)
