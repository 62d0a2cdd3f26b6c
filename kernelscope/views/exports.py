"""The registry of exporters: in which formats a recording can be written, and how each is asked for.

An exporter is one entry of `EXPORTERS`, or of a feature's; `exporters` returns all. ``kernelscope export``,
``%kernelscope export``, the methods ``to_...`` of a recording, error messages and the documentation's table are made
from it, so that a further one is its function and its entry here. The functions' modules are loaded when they are used.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelscope.errors import KernelScopeError
from kernelscope.registry import features, loaded
from kernelscope.suggestions import did_you_mean


@dataclass(frozen=True)
class Exporter:
    """One format.

    Attributes
    ----------
    name : str
        As ``--to`` has it; a recording's method is called ``to_`` and this.
    function : str
        Module and function that write it, as in ``package.module:function``: it takes a recording, a path, and by name
        ``paths`` (keep those of this machine) and ``progress``, and returns the path that it wrote.
    ending : str
        What a file's or folder's name ends in where none is given.
    about : str
        What it is, in a line or two.
    opens_in : str
        Which programs read it.
    suffixes : tuple of str
        Suffixes of files' names that ask for it; none where it writes a folder.
    needs : str
        The optional package that `function` writes `ending` with; empty where there is none. The function's module says
        by ``has_package()`` whether it is installed.
    without : str
        What is written where that is missing, and how to get it.
    metrics : tuple of str
        What its numbers can be, as ``--metric`` has it: `function` takes one of them by the name ``metric``.
    about_metrics : str
        What these are, for the help of ``--metric``.
    of_studies : str
        Module and function that write a saved study in this format: it takes the study's file and a path. Empty where
        only recordings can be written.
    """

    name: str
    function: str
    ending: str
    about: str
    opens_in: str
    suffixes: tuple[str, ...] = ()
    needs: str = ""
    without: str = ""
    metrics: tuple[str, ...] = ()
    about_metrics: str = ""
    of_studies: str = ""

    @property
    def write(self) -> Callable[..., Path]:
        """Return the function that writes the format."""
        return _function(self.function)

    @property
    def write_study(self) -> Callable[[str, str], Path]:
        """Return the function that writes a saved study in the format."""
        return _function(self.of_studies)

    def default_name(self, source: str) -> str:
        """Return the name beside the recording's file that an export gets when none is given."""
        path = Path(source)
        stem = path.stem if path.suffix in (".kscope", ".json") else path.name
        return str(path.with_name((stem or "recording") + self.ending))

    def written_to(self, target: Path) -> Path:
        """Return the file that is written for a name: another one where the package is missing that `ending` needs."""
        is_complete = not self.needs or bool(_function(self.function.partition(":")[0] + ":has_package")())
        return target if is_complete else target.with_suffix(".json")

    def note(self, asked: str, written: Path) -> str:
        """Return what to say where something else was written than was asked for; usually nothing."""
        is_other = bool(self.without) and written.suffix not in (self.ending, Path(asked).suffix)
        return f" ({self.without})" if is_other else ""


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


#: The core's exporters by name.
EXPORTERS = {each.name: each for each in (
    Exporter(
        "perfetto", "kernelscope.views.timeline.perfetto:to_perfetto", ".pftrace",
        "a trace with the timeline's lanes, and arrows from launches to kernels",
        "[ui.perfetto.dev](https://ui.perfetto.dev), `trace_processor` and its SQL", (".pftrace", ".json"), "perfetto",
        'Chrome JSON, since the perfetto package is missing: pip install "kernelscope[perfetto]" makes smaller traces'),
    Exporter(
        "html", "kernelscope.views.page:write_page", ".html",
        "one page with the card, the timeline and the inspector", "any browser, with no network", (".html", ".htm")),
    Exporter(
        "parquet", "kernelscope.views.tables:to_parquet", "-parquet",
        "a folder with one Parquet file a table", "pandas, Polars, DuckDB, Spark"),
    Exporter(
        "csv", "kernelscope.views.tables:to_csv", "-csv",
        "a folder with one CSV file a table", "spreadsheets, anything"),
    Exporter(
        "bmf", "kernelscope.views.benchmarks:to_bmf", ".bmf.json",
        "Bencher Metric Format: launch, compile and GPU time by kernel, or the cases of a study",
        "[Bencher](https://bencher.dev), `bencher run --adapter json`", (".bmf.json",),
        of_studies="kernelscope.studies.benchmarks:to_bmf"),
    Exporter(
        "pytest-benchmark", "kernelscope.views.benchmarks:to_pytest_benchmark", ".benchmark.json",
        "pytest-benchmark's JSON: launch times by kernel, or the cases of a study",
        "`pytest-benchmark compare`, what reads `pytest --benchmark-json`", (".benchmark.json",),
        of_studies="kernelscope.studies.benchmarks:to_pytest_benchmark"),
)}


@functools.cache
def exporters() -> Mapping[str, Exporter]:
    """Return all exporters by name: the core's, then those of features."""
    return EXPORTERS | {exporter.name: exporter for feature in features() if feature.exporters
                        for exporter in loaded(feature.exporters)}


def exporter_of(path: str) -> Exporter | None:
    """Return the exporter that a file's name asks for: that of the longest suffix."""
    found = [(len(suffix), exporter) for exporter in exporters().values() for suffix in exporter.suffixes
             if path.endswith(suffix) and Path(path).name != suffix]
    return max(found, key=lambda each: each[0])[1] if found else None


def exporter_named_by(path: str) -> Exporter:
    """Return the exporter that a file's name asks for.

    Raises
    ------
    KernelScopeError
        The name's suffix is not one of a format.
    """
    found = exporter_of(path)
    if found is None:
        suffix = Path(path).suffix
        near = did_you_mean(suffix, suffixes()) if suffix else ""
        raise KernelScopeError(f"{path!r} does not say which format: end it in {listed(suffixes())}, or add --to "
                               f"{listed([*exporters()])}{near}")
    return found


def suffixes() -> list[str]:
    """Return all suffixes that ask for a format."""
    return [suffix for exporter in exporters().values() for suffix in exporter.suffixes]


def listed(words: list[str]) -> str:
    """Return words as a text lists them: ``perfetto, html or csv``."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def help_text() -> str:
    """Return a line or more on each format, as the command line's help has them."""
    width = max(map(len, exporters())) + 2
    lines: list[str] = []
    for exporter in exporters().values():
        lines.append(f"  {exporter.name:{width}} {exporter.about} (out{exporter.ending})")
        others = [suffix for suffix in exporter.suffixes if suffix != exporter.ending]
        if exporter.needs:
            lines.append(f"  {'':{width}} (out{others[0]} where the {exporter.needs} package is missing or -o ends so)")
    return "\n".join(lines)


def reference_table() -> str:
    """Return the formats as a table of the documentation, in Markdown."""
    rows = [f"| `{exporter.name}` | {exporter.opens_in} | {exporter.about} | `out{exporter.ending}` |"
            for exporter in exporters().values()]
    return "\n".join(["| format | opens in | what it is | name when none is given |", "|---|---|---|---|", *rows])


def method(name: str) -> Callable[..., Any] | None:
    """Return what a recording's method of that name calls: ``to_`` and an exporter's name; None for any other."""
    found = exporters().get(name.removeprefix("to_").replace("_", "-")) if name.startswith("to_") else None
    return None if found is None else found.write
