"""`Recording`: what was recorded, as plain tables and metadata. It needs neither a GPU nor a framework."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kernelscope.recording.arrow import arrow_schema, empty_table
from kernelscope.schema import TABLES, UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

#: What every output of a dry run says.
DRY_RUN_NOTICE = "dry run: kernels did not execute"
#: What every output of the CUDA simulator says.
SIMULATOR_NOTICE = "CUDA simulator: times say nothing about a GPU"

# A recording names its views and does not import them, so that the renderers stay above this module.
_VIEWS = {
    "summary": ("kernelscope.renderers.text", "summary"),
    "card": ("kernelscope.renderers.html", "card"),
    "write_page": ("kernelscope.widgets.page", "write_page"),
    "specializations": ("kernelscope.analysis.specialization_table", "specialization_table"),
    "by_range": ("kernelscope.analysis.ranges", "range_table"),
    "to_perfetto": ("kernelscope.renderers.perfetto", "to_perfetto"),
    "to_parquet": ("kernelscope.renderers.tables", "to_parquet"),
    "redacted": ("kernelscope.analysis.redaction", "redacted"),
    "to_csv": ("kernelscope.renderers.tables", "to_csv"),
}

_PANDAS_NULLABLE = {"int64": "Int64", "int32": "Int32", "bool": "boolean"}


class Recording:
    """A finished recording: immutable tables and metadata.

    Each table of `kernelscope.schema.TABLES` is an attribute that gives a new pandas DataFrame: ``launches``,
    ``compilations``, ``specializations``... Changing such a DataFrame does not change the recording. That of
    ``specializations`` has further columns behind the table's own.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        Tables by name; those left out are empty. Their schemas must be those of `kernelscope.schema`.
    metadata : mapping
        What was on: versions, device, detail, clock. Plain JSON values only.

    Raises
    ------
    ValueError
        A table is unknown or has another schema.
    """

    def __init__(self, tables: Mapping[str, pa.Table], metadata: Mapping[str, Any]) -> None:
        unknown = set(tables) - set(TABLES)
        if unknown:
            raise ValueError(f"no table is called {', '.join(sorted(unknown))}; known: {', '.join(TABLES)}")
        for name, table in tables.items():
            if not table.schema.equals(arrow_schema(name)):
                raise ValueError(f"table {name!r} does not have the columns of its schema")
        self._tables = {name: tables.get(name, empty_table(name)) for name in TABLES}
        self._metadata = MappingProxyType(copy.deepcopy(dict(metadata)))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What was on: a read-only mapping of JSON values."""
        return self._metadata

    @property
    def name(self) -> str:
        """The name given to the recording, or an empty string."""
        return str(self._metadata.get("name") or "")

    @property
    def is_dry_run(self) -> bool:
        """Whether it was made with the null driver, on which no kernel executes."""
        return bool(self._metadata.get("dry_run"))

    @property
    def is_simulated(self) -> bool:
        """Whether it was made in numba's CUDA simulator."""
        return bool(self._metadata.get("simulator"))

    @property
    def notice(self) -> str:
        """What every output of this recording must say: the dry run's or the simulator's notice, or nothing."""
        if self.is_dry_run:
            return DRY_RUN_NOTICE
        return SIMULATOR_NOTICE if self.is_simulated else ""

    def arrow(self, name: str) -> pa.Table:
        """Return the table called `name` as it is held, a `pyarrow.Table`; raises `KeyError` if unknown."""
        return self._tables[name]

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the table called `name` as one dict a row, None for null: for the small tables."""
        return self._tables[name].to_pylist()

    def column(self, table: str, name: str) -> np.ndarray:
        """Return one column as a NumPy array, for analysis.

        Nulls are -1 (`kernelscope.schema.UNKNOWN`) in integer columns, NaN in float columns, False in bool
        columns and None in text columns.
        """
        column = self._tables[table].column(name)
        if pa.types.is_integer(column.type):
            if column.null_count:
                column = column.fill_null(UNKNOWN)
            return column.to_numpy()
        if pa.types.is_dictionary(column.type):
            # Arrow's own conversion of such a column gives nulls its last word.
            coded = column.unify_dictionaries().combine_chunks()
            words = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
            return words[coded.indices.fill_null(UNKNOWN).to_numpy()]
        if pa.types.is_boolean(column.type) and column.null_count:
            column = column.fill_null(False)
        return column.to_numpy()

    def table(self, name: str) -> pd.DataFrame:
        """Return the table called `name` as a new DataFrame; raises `KeyError` if there is none of that name."""
        import pandas as pd

        source = self._tables[name]
        columns: dict[str, Any] = {}
        for column in TABLES[name].columns:
            array = source.column(column.name)
            if column.nullable and column.dtype in _PANDAS_NULLABLE:
                columns[column.name] = _masked(array, _PANDAS_NULLABLE[column.dtype])
            else:
                columns[column.name] = array.to_pandas()
        return pd.DataFrame(columns, columns=list(TABLES[name].names))

    @property
    def cells(self) -> pd.DataFrame:
        """One row a run of one cell."""
        return self.table("cells")

    @property
    def threads(self) -> pd.DataFrame:
        """One row a host thread."""
        return self.table("threads")

    @property
    def devices(self) -> pd.DataFrame:
        """One row a CUDA device."""
        return self.table("devices")

    @property
    def dispatchers(self) -> pd.DataFrame:
        """One row a kernel function."""
        return self.table("dispatchers")

    @property
    def specializations(self) -> pd.DataFrame:
        """One row a compiled overload, with its kernel, arguments, launches, occupancy and reason beside the columns.

        See `kernelscope.analysis.specialization_table`; ``table("specializations")`` has the schema's columns only.
        """
        return _view("specializations")(self)

    @property
    def configurations(self) -> pd.DataFrame:
        """One row a launch configuration."""
        return self.table("configurations")

    @property
    def occupancies(self) -> pd.DataFrame:
        """One row a specialization under a launch configuration on a device."""
        return self.table("occupancies")

    @property
    def launches(self) -> pd.DataFrame:
        """One row a launch."""
        return self.table("launches")

    @property
    def activities(self) -> pd.DataFrame:
        """One row an activity of the GPU, or a wait for it."""
        return self.table("activities")

    @property
    def api_calls(self) -> pd.DataFrame:
        """One row a driver or runtime call that mattered and made no activity."""
        return self.table("api_calls")

    @property
    def compilations(self) -> pd.DataFrame:
        """One row a compile or disk-cache load."""
        return self.table("compilations")

    @property
    def passes(self) -> pd.DataFrame:
        """One row a compiler pass or link phase."""
        return self.table("passes")

    @property
    def builds(self) -> pd.DataFrame:
        """One row a request to a library's build cache."""
        return self.table("builds")

    @property
    def graphs(self) -> pd.DataFrame:
        """One row a CUDA graph: see `kernelscope.graph` for its picture."""
        return self.table("graphs")

    @property
    def graph_nodes(self) -> pd.DataFrame:
        """One row a node of a graph."""
        return self.table("graph_nodes")

    @property
    def graph_edges(self) -> pd.DataFrame:
        """One row a dependency between two nodes."""
        return self.table("graph_edges")

    @property
    def graph_events(self) -> pd.DataFrame:
        """One row an event in the life of a graph: capture, instantiate, update, launch and so on."""
        return self.table("graph_events")

    @property
    def code(self) -> pd.DataFrame:
        """One row a text of code; without rows unless code was asked for."""
        return self.table("code")

    @property
    def ranges(self) -> pd.DataFrame:
        """One row an NVTX range or mark."""
        return self.table("ranges")

    @property
    def health(self) -> pd.DataFrame:
        """One row a fact about the recording itself."""
        return self.table("health")

    def save(self, path: str | Path, *, paths: bool = False, overwrite: bool = True) -> Path:
        """Write a ``.kscope`` file and return its path.

        Parameters
        ----------
        path : str or Path
            Where to; ``.kscope`` is added to a name without a suffix.
        paths : bool
            Keep full file paths of this machine instead of the files' names only.
        overwrite : bool
            Whether an existing file may be replaced.

        Raises
        ------
        RecordingFileError
            The file exists and `overwrite` is false, or cannot be written.
        """
        from kernelscope.recording.io import save

        return save(self, path, paths=paths, overwrite=overwrite)

    def redacted(self, *, names: bool = True) -> Recording:
        """Return the recording as others may see it: without source, code, messages of exceptions, payloads and names.

        What is saved, exported and shown of it has none of them.

        Parameters
        ----------
        names : bool
            Whether to take out names too: of kernels, arguments, files, ranges and cells. Neutral ones stand for them.
        """
        return _view("redacted")(self, names=names)

    def to_html(self, path: str | Path, *, paths: bool = False) -> Path:
        """Write the card and the timeline as one HTML file that needs no server, and return its path.

        Parameters
        ----------
        path : str or Path
            Where to; ``.html`` is added to a name without a suffix. An existing file is replaced.
        paths : bool
            Keep full paths of this machine.

        Raises
        ------
        RecordingFileError
            It cannot be written, or would take the place of a recording.
        """
        return _view("write_page")(self, path, paths=paths)

    def summary(self) -> str:
        """Return the card as plain text: kernels, launches, compiles, hits, host time by phase, health."""
        return _view("summary")(self)

    def by_range(self) -> pd.DataFrame:
        """Return launches and their host time by NVTX range: a new DataFrame, one row a path of ranges.

        A path is the names of the ranges around one another, joined by " / ". A launch belongs to the innermost
        range that was open on its thread when it started, so that the rows add up; times are in nanoseconds.
        """
        return _view("by_range")(self)

    def to_perfetto(self, path: str | Path, **options: Any) -> Path:
        """Write a trace for the Perfetto UI and return its path: see `kernelscope.renderers.perfetto.to_perfetto`."""
        return _view("to_perfetto")(self, path, **options)

    def to_parquet(self, folder: str | Path, **options: Any) -> Path:
        """Write one Parquet file a table into a folder: see `kernelscope.renderers.tables.to_parquet`."""
        return _view("to_parquet")(self, folder, **options)

    def to_csv(self, folder: str | Path, **options: Any) -> Path:
        """Write one CSV file a table into a folder: see `kernelscope.renderers.tables.to_csv`."""
        return _view("to_csv")(self, folder, **options)

    def __repr__(self) -> str:
        """Return the text card, which is what a terminal's IPython shows."""
        return self.summary()

    def _repr_html_(self) -> str:
        return _view("card")(self)


def _view(name: str) -> Any:
    module, function = _VIEWS[name]
    return getattr(importlib.import_module(module), function)


def _masked(array: pa.ChunkedArray, dtype: str) -> Any:
    """A nullable pandas column of integers or bools, without a detour over floats."""
    import pandas as pd

    mask = array.is_null().to_numpy() if array.null_count else np.zeros(len(array), dtype=bool)
    if dtype == "boolean":
        return pd.arrays.BooleanArray(array.fill_null(False).to_numpy().astype(bool), mask)
    return pd.arrays.IntegerArray(np.array(array.fill_null(0).to_numpy()), mask)
