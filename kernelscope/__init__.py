"""KernelScope shows every CUDA kernel launch of a notebook cell.

``%load_ext kernelscope`` and ``%%kernelscope`` record a cell; ``with kernelscope.record("name") as r:`` does the
same in a script. Public names are loaded on first use (PEP 562): importing the package has no side effect and
imports neither pandas, plotly nor numba. The one exception is optional: with ``KERNELSCOPE_DRYRUN=1`` in the
environment the import switches the dry run on.

PYTEST_DONT_REWRITE: pytest, which loads a plugin from this package, would warn where it was imported before.
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nvtx import annotate as annotate

    from kernelscope.commands.inspect import inspect as inspect
    from kernelscope.commands.magics import load_ipython_extension as load_ipython_extension
    from kernelscope.commands.magics import unload_ipython_extension as unload_ipython_extension
    from kernelscope.errors import CalibrationError as CalibrationError
    from kernelscope.errors import CountersError as CountersError
    from kernelscope.errors import CubinError as CubinError
    from kernelscope.errors import DisassemblerError as DisassemblerError
    from kernelscope.errors import DryRunError as DryRunError
    from kernelscope.errors import GraphError as GraphError
    from kernelscope.errors import JournalError as JournalError
    from kernelscope.errors import KernelScopeError as KernelScopeError
    from kernelscope.errors import ProbeUnavailableError as ProbeUnavailableError
    from kernelscope.errors import RecorderStateError as RecorderStateError
    from kernelscope.errors import RecordingFileError as RecordingFileError
    from kernelscope.errors import StudyArgumentError as StudyArgumentError
    from kernelscope.errors import StudyError as StudyError
    from kernelscope.errors import StudyFileError as StudyFileError
    from kernelscope.errors import UnknownCellError as UnknownCellError
    from kernelscope.errors import UnknownFrameworkError as UnknownFrameworkError
    from kernelscope.errors import UnknownGraphError as UnknownGraphError
    from kernelscope.errors import UnknownKernelError as UnknownKernelError
    from kernelscope.errors import UnknownProcessError as UnknownProcessError
    from kernelscope.recorder.recover import journals as journals
    from kernelscope.typed import *  # noqa: F403 - and what features add
    from kernelscope.views.graph.widget import graph as graph
    from kernelscope.views.timeline.widget import timeline as timeline

__version__ = "0.1.0"

_HOMES = {
    "annotate": "nvtx",
    "Recorder": "kernelscope.recorder.recorder",
    "record": "kernelscope.recorder.blocks",
    "recorded": "kernelscope.recorder.blocks",
    "Recording": "kernelscope.recording.model",
    "load": "kernelscope.recording.file",
    "merge": "kernelscope.recording.merge",
    "journals": "kernelscope.recorder.recover",
    "recover": "kernelscope.recorder.recover",
    "timeline": "kernelscope.views.timeline.widget",
    "graph": "kernelscope.views.graph.widget",
    "inspect": "kernelscope.commands.inspect",
    "load_ipython_extension": "kernelscope.commands.magics",
    "unload_ipython_extension": "kernelscope.commands.magics",
    "KernelScopeError": "kernelscope.errors",
    "CalibrationError": "kernelscope.errors",
    "CountersError": "kernelscope.errors",
    "CubinError": "kernelscope.errors",
    "DisassemblerError": "kernelscope.errors",
    "DryRunError": "kernelscope.errors",
    "GraphError": "kernelscope.errors",
    "JournalError": "kernelscope.errors",
    "ProbeUnavailableError": "kernelscope.errors",
    "RecorderStateError": "kernelscope.errors",
    "RecordingFileError": "kernelscope.errors",
    "StudyArgumentError": "kernelscope.errors",
    "StudyError": "kernelscope.errors",
    "StudyFileError": "kernelscope.errors",
    "UnknownCellError": "kernelscope.errors",
    "UnknownFrameworkError": "kernelscope.errors",
    "UnknownGraphError": "kernelscope.errors",
    "UnknownKernelError": "kernelscope.errors",
    "UnknownProcessError": "kernelscope.errors",
}

_ROOMS = {
    "calibration": "kernelscope.recorder.overhead",
    "charts": "kernelscope.views.charts",
    "clock": "kernelscope.clock",
    "dask": "kernelscope.dask",
    "dryrun": "kernelscope.dryrun",
    "errors": "kernelscope.errors",
    "graphs": "kernelscope.graphs",
    "ipyparallel": "kernelscope.ipyparallel",
    "processes": "kernelscope.processes",
    "schema": "kernelscope.schema",
    "studies": "kernelscope.studies",
}


def __getattr__(name: str) -> Any:
    if name == "__all__":  # what features add is not known before the registry is imported
        value = ["__version__", *sorted({*_HOMES, *_of_features()})]
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _ROOMS:
        value = importlib.import_module(_ROOMS[name])
    elif name in _of_features():
        value = importlib.import_module("kernelscope.registry").loaded(_of_features()[name])
    elif name == "__all__":  # made when it is needed: importing the package looks for no features
        value = ["__version__", *sorted({*_HOMES, *_of_features()})]
    else:
        raise AttributeError(f"module 'kernelscope' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_ROOMS, *_of_features()})


def _of_features() -> dict[str, str]:
    """Return the public functions that features add, as ``module:name``."""
    registry = importlib.import_module("kernelscope.registry")
    return {name: function for feature in registry.features() for name, function in feature.functions.items()}


def _dry_run_from_environment() -> None:
    """Switch the dry run on if ``KERNELSCOPE_DRYRUN`` is set; report a failure now and at the first recording."""
    dryrun = importlib.import_module("kernelscope.dryrun")
    try:
        dryrun.enable_from_environment()
    except importlib.import_module("kernelscope.errors").DryRunError as problem:
        warnings.warn(f"KERNELSCOPE_DRYRUN is set, but {problem}", RuntimeWarning, stacklevel=3)


if os.environ.get("KERNELSCOPE_DRYRUN"):
    _dry_run_from_environment()
