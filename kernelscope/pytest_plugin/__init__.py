"""The pytest plugin: recompile checks as a marker, and a report of what each test launched and compiled.

It is installed with the package, as the entry point ``kernelscope`` of ``pytest11``, and does nothing unless a test
has the marker ``kernelscope`` or the option ``--kernelscope-report`` is given: until then this module is all that is
imported, and it imports nothing but pytest. ``-p no:kernelscope`` leaves even that out.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kernelscope.pytest_plugin.checks import Report

MARKER = "kernelscope"
_OPTION = "kernelscope_report"
_REPORT = "kernelscope-report"
_SUFFIXES = (".json", ".kscope")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--kernelscope-report``."""
    parser.getgroup("kernelscope", "KernelScope: what tests launch and compile").addoption(
        "--kernelscope-report", dest=_OPTION, metavar="FILE", default=None,
        help="record every test and write what it launched and compiled to FILE: .json, or .kscope for a recording "
             "with a cell for each test")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker; with ``--kernelscope-report``, refuse a wrong file name and begin to collect."""
    config.addinivalue_line("markers", (
        "kernelscope(max_compiles=None, max_specializations=None, max_launches=None): fail the test, with the reasons, "
        "if its call compiles, specializes or launches CUDA kernels more often; max_specializations is for each "
        "kernel, or a dict by kernel name"))
    path = _report_path(config)
    if path is None or hasattr(config, "workerinput"):  # pytest-xdist's workers hand theirs to the controller
        return
    if path.suffix.lower() not in _SUFFIXES:
        raise pytest.UsageError(
            f"--kernelscope-report {str(path)!r}: a report's name ends in {' or '.join(_SUFFIXES)}")
    if path.is_dir():
        raise pytest.UsageError(f"--kernelscope-report {str(path)!r}: that is a folder")
    if not config.option.collectonly:
        from kernelscope.pytest_plugin.checks import Report

        # A test may change the working folder.
        config.pluginmanager.register(Report(path.expanduser().absolute()), _REPORT)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Check the marks, and record tests from here on if there is anything to record."""
    marked = [item for item in items if item.get_closest_marker(MARKER) is not None]
    path = _report_path(config)
    if not marked and path is None:
        return
    from kernelscope.pytest_plugin.checks import LimitError, limits_of

    for item in marked:
        try:
            limits_of(item)
        except LimitError as problem:
            if not hasattr(config, "workerinput"):
                raise pytest.UsageError(str(problem)) from None
            # A worker that ends now would be reported as a crash: the test fails with the same line instead.
    if config.option.collectonly:
        return
    with warnings.catch_warnings():
        # What other packages warn of while they are imported is not the tests' affair.
        warnings.simplefilter("ignore")
        from kernelscope.pytest_plugin.checks import CallRecorder
    report: Report | None = config.pluginmanager.get_plugin(_REPORT)
    keeps = None if path is None else path.suffix.lower()
    config.pluginmanager.register(CallRecorder(report, keeps, hasattr(config, "workerinput")), "kernelscope-recorder")


def _report_path(config: pytest.Config) -> Path | None:
    given = config.getoption(_OPTION, None)
    return None if given is None else Path(str(given))
