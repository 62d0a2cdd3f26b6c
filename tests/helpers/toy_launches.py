"""A framework of nothing but a launch path: its parts take known times on a clock that only they and readings move."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelscope.studies.bench import breakdown as anatomy

#: What each part takes, in nanoseconds.
TAKES = {"configure": 300, "dispatch": 2000, "set-up": 500, "argument 0": 1000, "argument 1": 1500,
         "configuration object": 700, "submit": 900, "finish": 200}
READING_NS = 40

SOURCE = '''\
"""A toy."""
import functools
work = None


class LaunchConfig:
    def __init__(self, grid):
        work("configuration object")


def launch(stream, config, kernel, *kernelargs):
    work("submit")


def noted(function):
    @functools.wraps(function)
    def wrapper(self, args):
        return function(self, args)
    return wrapper


class _Kernel:
    argument_types = ("int64", "float32")
    extensions = ()

    @noted
    def launch(self, args):
        """Launches."""
        work("set-up")
        kernelargs = []
        for index, (t, v) in enumerate(zip(self.argument_types, args)):
            self._prepare_args(index, kernelargs)
        config = LaunchConfig(1)
        launch(0, config, self, *kernelargs)
        work("finish")

    def _prepare_args(self, index, kernelargs):
        work("argument %d" % index)
        kernelargs.append(index)


class CUDADispatcher:
    kernel = _Kernel()

    def call(self, args):
        """Calls."""
        work("dispatch")
        self.kernel.launch(args)

    def __getitem__(self, grid):
        work("configure")
        return lambda *args: self.call(args)
'''


class Clock:
    """A clock that a reading moves by `READING_NS`, half of it before the time is taken."""

    def __init__(self) -> None:
        self.now = 1

    def __call__(self) -> int:
        self.now += READING_NS // 2
        read = self.now
        self.now += READING_NS // 2
        return read


@contextmanager
def toy(folder: Path, source: str = SOURCE, **more: int) -> Iterator[tuple[ModuleType, Clock, dict[str, Any]]]:
    """Give the toy's module, its clock, and the names that a case's statement has; `more` changes what a part takes."""
    file = folder / "toy_dispatcher.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location("toy_dispatcher", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["toy_dispatcher"] = module
    spec.loader.exec_module(module)
    clock = Clock()
    takes = {**TAKES, **{name.replace("_", " "): value for name, value in more.items()}}

    def work(part: str) -> None:
        clock.now += takes[part]

    module.__dict__["work"] = work
    known = anatomy.PATHS["numba-cuda"]
    anatomy.PATHS["toy"] = anatomy.Path("toy_dispatcher", known.entered, known.launched, known.prepares,
                                                known.submits, {})
    try:
        yield module, clock, {"k": module.CUDADispatcher()}
    finally:
        del sys.modules["toy_dispatcher"], anatomy.PATHS["toy"]
