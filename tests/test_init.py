from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kernelscope

ROOT = Path(kernelscope.__file__).parents[1]
HEAVY = ("numpy", "pandas", "pyarrow", "plotly", "numba", "cuda", "IPython", "anywidget", "ipywidgets")


def _python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in an interpreter in which no dry run is asked for."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KERNELSCOPE_")}
    return subprocess.run([sys.executable, "-W", "error", "-c", code], env={**environment, "PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, timeout=600, check=True)


def test_public_names() -> None:
    assert set(kernelscope.__all__) == {
        "CalibrationError", "CountersError", "CubinError", "DisassemblerError", "DryRunError", "GraphError",
        "JournalError", "KernelScopeError",
        "ProbeUnavailableError", "Recorder", "RecorderStateError", "Recording", "RecordingFileError",
        "StudyArgumentError", "StudyError", "StudyFileError",
        "UnknownCellError", "UnknownFrameworkError", "UnknownGraphError", "UnknownKernelError",
        "UnknownProcessError", "__version__", "annotate", "compare",
        "flame", "graph", "history", "inspect", "journals", "load", "load_ipython_extension", "merge",
    "metrics", "record", "recorded",
        "recover", "roofline", "timeline", "unload_ipython_extension",
    }
    assert kernelscope.__all__ == sorted(kernelscope.__all__, key=lambda name: (name != "__version__", name))
    assert set(kernelscope.__all__) <= set(dir(kernelscope))


def test_names_of_finished_recordings_are_their_homes() -> None:
    from kernelscope.recording import file, model

    assert kernelscope.load is file.load
    assert kernelscope.Recording is model.Recording
    assert kernelscope.schema is sys.modules["kernelscope.schema"]


def test_version_is_a_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|a\d+|b\d+|rc\d+)?", kernelscope.__version__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'kernelscope' has no attribute 'nothing'"):
        _ = kernelscope.nothing
    assert not hasattr(kernelscope, "_nothing")


def test_import_loads_nothing_heavy() -> None:
    loaded = _python(f"import sys, kernelscope; print([n for n in {HEAVY} if n in sys.modules])").stdout
    assert loaded == "[]\n"


def test_import_has_no_side_effect() -> None:
    code = ("import sys; before = set(sys.meta_path); import kernelscope; "
            "print(sorted(n for n in sys.modules if n.startswith('kernelscope')), set(sys.meta_path) == before)")
    assert _python(code).stdout == "['kernelscope'] True\n"


def test_name_is_loaded_on_first_use() -> None:
    code = "import sys, kernelscope; kernelscope.KernelScopeError; print('KernelScopeError' in vars(kernelscope), " \
           "'kernelscope.recording.model' in sys.modules)"
    assert _python(code).stdout == "True False\n"


def test_a_dry_run_that_cannot_be_had_warns_at_import_and_fails_at_the_first_recording(tmp_path: Path) -> None:
    code = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import kernelscope
assert "the dry run needs a C compiler" in str(caught[0].message), caught
try:
    with kernelscope.record():
        pass
except kernelscope.DryRunError as error:
    assert "needs a C compiler" in str(error)
else:
    raise AssertionError("it recorded without a driver")
"""
    environment = {**os.environ, "KERNELSCOPE_DRYRUN": "1", "CC": "no-such-compiler", "PATH": str(tmp_path),
                   "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
