"""The native recorder, which is optional: where it cannot be compiled, the package records in Python.

KERNELSCOPE_STRICT=1 makes every warning of the compiler an error, and a failed build the end of the installation.
All else about the package stands in pyproject.toml.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

# Setuptools takes the sources by names relative to this folder, which is where it runs.
SOURCES = Path("kernelscope", "native", "csrc")
# Without a global lock the ring's counters have to be atomic.
THREADS = [("KS_THREADS", "1")] if sysconfig.get_config_var("Py_GIL_DISABLED") else []
STRICT = os.environ.get("KERNELSCOPE_STRICT") == "1"
WARNINGS = ["-Wall", "-Wextra"] + ["-Werror"] * STRICT

setup(
    ext_modules=[
        Extension(
            "kernelscope.native._core",
            sources=sorted(str(path) for path in SOURCES.glob("*.c")),
            depends=sorted(str(path) for path in SOURCES.glob("*.h")),
            define_macros=[("_GNU_SOURCE", "1"), *THREADS],
            extra_compile_args=["-O2", "-std=c11", *WARNINGS, "-fvisibility=hidden", "-pthread"],
            extra_link_args=["-pthread"],
            language="c",
            optional=not STRICT,
        )
    ]
)
