"""`Recording`: what was recorded, as plain tables and metadata, and parts of it as recordings of their own."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from kernelscope.errors import (
    RecordingFileError,
    UnknownCellError,
    UnknownFrameworkError,
    UnknownProcessError,
)
from kernelscope.recording.driver import FRAMEWORK as DRIVER
from kernelscope.recording.driver import are_hooked
from kernelscope.recording.parquet import arrow_schema, empty_table, make_table, table_of_rows
from kernelscope.recording.time import FOREVER, instants, is_known, otherwise
from kernelscope.registry import FeatureMethod, features
from kernelscope.schema import INSTANTS, REFERENCES, TABLES, UNKNOWN

if TYPE_CHECKING:
    import pandas as pd



#: What every output of a dry run says.
DRY_RUN_NOTICE = "dry run: kernels did not execute"
#: What every output of the CUDA simulator says.
SIMULATOR_NOTICE = "CUDA simulator: times say nothing about a GPU"

# A recording names its views and does not import them, so that the views stay above this module.
_VIEWS = {
    "summary": ("kernelscope.views.card.text", "summary"),
    "card": ("kernelscope.views.card.html", "card"),
    "specializations": ("kernelscope.views.inspector.model", "specialization_table"),
    "by_range": ("kernelscope.analysis.ranges", "range_table"),
    "by_line": ("kernelscope.analysis.lines", "line_table"),
    "by_tuning": ("kernelscope.analysis.tuning", "tuning_table"),
    "by_process": ("kernelscope.analysis.processes", "process_table"),
    "exporter_of": ("kernelscope.views.exports", "exporter_of"),
    "export_method": ("kernelscope.views.exports", "method"),
    "redacted": ("kernelscope.analysis.redaction", "redacted"),
}

_PANDAS_NULLABLE = {"int64": "Int64", "int32": "Int32", "bool": "boolean"}


class _TableFrame:
    """A table of the schema as an attribute of `Recording`: each use gives a new DataFrame."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self.__doc__ = f"A new DataFrame with a row for each of: {TABLES[name].row}."

    def __get__(self, recording: Recording | None, owner: type | None = None) -> pd.DataFrame:
        return cast("Any", self) if recording is None else recording.table(self._name)


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

    Attributes
    ----------
    tables : mapping of str to pyarrow.Table
        All tables as they are held, by name: read-only.
    """

    def __init__(self, tables: Mapping[str, pa.Table], metadata: Mapping[str, Any]) -> None:
        unknown = set(tables) - set(TABLES)
        if unknown:
            raise ValueError(f"no table is called {', '.join(sorted(unknown))}; known: {', '.join(TABLES)}")
        for name, table in tables.items():
            if not table.schema.equals(arrow_schema(name)):
                raise ValueError(f"table {name!r} does not have the columns of its schema")
        self.tables = MappingProxyType({name: tables.get(name, empty_table(name)) for name in TABLES})
        self._metadata = MappingProxyType(copy.deepcopy(dict(metadata)))
        #: What `kernelscope.recording.redact.shareable` made of it, None for itself, and for which folders.
        self.without_paths: tuple[Any, Recording | None] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle tables and metadata, for another process of the same version; `save` writes what is to last."""
        return Recording, (dict(self.tables), dict(self._metadata))

    def __deepcopy__(self, memo: dict[int, Any]) -> Recording:
        """Return a recording with the same tables, which nobody can change, and a copy of the metadata."""
        return Recording(self.tables, self._metadata)

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
    def is_imported(self) -> bool:
        """Whether it was opened from the trace of another tool, which knows of no compiles and caches."""
        return bool(self._metadata.get("imported"))

    @property
    def notice(self) -> str:
        """What every output of this recording must say: the dry run's or the simulator's notice, or nothing."""
        if self.is_dry_run:
            return DRY_RUN_NOTICE
        return SIMULATOR_NOTICE if self.is_simulated else ""

    def arrow(self, name: str) -> pa.Table:
        """Return the table called `name` as it is held, a `pyarrow.Table`; raises `KeyError` if unknown."""
        return self.tables[name]

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the table called `name` as one dict a row, None for null: for the small tables."""
        return self.tables[name].to_pylist()

    def column(self, table: str, name: str) -> np.ndarray:
        """Return one column as a NumPy array, for analysis.

        Nulls are -1 (`kernelscope.schema.UNKNOWN`) in integer columns, but the least int64 in columns of instants,
        which can be below zero; NaN in float columns, False in bool columns and None in text columns.
        """
        column = self.tables[table].column(name)
        if name in INSTANTS:
            return instants(column)
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

        source = self.tables[name]
        columns: dict[str, Any] = {}
        for column in TABLES[name].columns:
            array = source.column(column.name)
            if column.nullable and column.dtype in _PANDAS_NULLABLE:
                columns[column.name] = _masked(array, _PANDAS_NULLABLE[column.dtype])
            else:
                columns[column.name] = array.to_pandas()
        return pd.DataFrame(columns, columns=list(TABLES[name].names))

    processes = _TableFrame()
    cells = _TableFrame()
    threads = _TableFrame()
    lines = _TableFrame()
    stacks = _TableFrame()
    operators = _TableFrame()
    devices = _TableFrame()
    dispatchers = _TableFrame()
    configurations = _TableFrame()
    occupancies = _TableFrame()
    launches = _TableFrame()
    activities = _TableFrame()
    api_calls = _TableFrame()
    compilations = _TableFrame()
    passes = _TableFrame()
    builds = _TableFrame()
    graphs = _TableFrame()
    graph_nodes = _TableFrame()
    graph_edges = _TableFrame()
    graph_events = _TableFrame()
    code = _TableFrame()
    ranges = _TableFrame()
    collections = _TableFrame()
    health = _TableFrame()

    @property
    def specializations(self) -> pd.DataFrame:
        """One row a compiled overload, with its kernel, arguments, launches, occupancy and reason beside the columns.

        See `kernelscope.views.inspector.model`; ``table("specializations")`` has the schema's columns only.
        """
        return _view("specializations")(self)

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
            The file exists and `overwrite` is false, or cannot be written; or the name is one of an export.
        """
        from kernelscope.recording.file import save

        exporter = _view("exporter_of")(str(path).lower())
        if exporter is not None:
            raise RecordingFileError(f"{str(path)!r} is the name of an export, and a recording's ends in .kscope: "
                                     f"name it so, or call to_{exporter.name}({str(path)!r})")

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
        return _view("export_method")("to_html")(self, path, paths=paths)

    def summary(self) -> str:
        """Return the card as plain text: kernels, launches, compiles, hits, host time by phase, health."""
        return _view("summary")(self)

    def by_range(self) -> pd.DataFrame:
        """Return launches and their host time by NVTX range: a new DataFrame, one row a path of ranges.

        A path is the names of the ranges around one another, joined by " / "; of more than 32 the first and the last. A
        launch belongs to the innermost range that was open on its thread when it started, so that the rows add up;
        times are in nanoseconds. What other threads launched while a range's thread waited, such as autograd's, is in
        ``other_launches``, ``other_host_ns`` and ``other_gpu_ns`` only.
        """
        return _view("by_range")(self)

    def by_line(self) -> pd.DataFrame:
        """Return what each line of your code cost: a new DataFrame, one row a line of a cell or file.

        Columns are the file (``In[3]`` for a cell), line, function and text, launches with their kernels and host time
        by phase, compiles, and the time of the GPU, of waits, and bytes copied. Work belongs to the line that gave it
        to the GPU, a wait to the line that waited. What has no known line is the last row. Times are in nanoseconds.
        """
        return _view("by_line")(self)


    def by_tuning(self) -> pd.DataFrame:
        """Return the runs of autotuners: a new DataFrame, one row a run.

        Columns are the kernel, the key that it was tuned for, how many configurations were tried, failed and were
        pruned, the best with its time and that of the next, in milliseconds, the run's time and of that in compiles and
        in benchmarks, in nanoseconds, the benchmarks' launches, and why it was needed.
        `kernelscope.analysis.tuning.trial_table` returns every configuration with its time.
        """
        return _view("by_tuning")(self)

    def by_process(self) -> pd.DataFrame:
        """Return what each process did: a new DataFrame, one row a process, the index its id.

        Columns are those that name it, launches with their host time, compiles, time of the GPU and of waits, the first
        and the last time that is known, how it ended, and what recording cost in it. Times are in nanoseconds.
        """
        return _view("by_process")(self)

    def select(self, *, cell: int | None = None, process: int | str | None = None,
               framework: str | None = None) -> Recording:
        """Return a part of the recording as a recording of its own.

        Parameters
        ----------
        cell : int, optional
            The row number of a cell in ``cells``.
        process : int or str, optional
            The row number of a process in ``processes``, or its worker's name.
        framework : str, optional
            A framework, such as ``"numba-cuda"``, or ``"driver"`` for kernels that no probe knows; or a library of
            these, such as ``"PyTorch"``.

        Raises
        ------
        UnknownCellError, UnknownProcessError, UnknownFrameworkError
            There is no such cell, or the process does not have it; there is no such process; it launched nothing.
        """
        if framework is not None:
            return select_framework(self.select(cell=cell, process=process), framework)
        if cell is None:
            return self if process is None else select_process(self, process)
        if process is not None:
            number = self.column("cells", "process_id").tolist()[cell:cell + 1] if cell >= 0 else []
            if number != [_process_of(self, process)]:
                raise UnknownCellError(f"process {process} of recording {self.name!r} has no cell {cell}")
        return select_cell(self, cell)

    def to_perfetto(self, path: str | Path, **options: Any) -> Path:
        """Write a trace for the Perfetto UI, and return its path: see `views.timeline.perfetto.to_perfetto`."""
        return _view("export_method")("to_perfetto")(self, path, **options)

    def to_parquet(self, folder: str | Path, **options: Any) -> Path:
        """Write one Parquet file a table into a folder: see `kernelscope.views.tables.to_parquet`."""
        return _view("export_method")("to_parquet")(self, folder, **options)

    def to_csv(self, folder: str | Path, **options: Any) -> Path:
        """Write one CSV file a table into a folder: see `kernelscope.views.tables.to_csv`."""
        return _view("export_method")("to_csv")(self, folder, **options)

    if not TYPE_CHECKING:  # a misspelled attribute stays an error of types

        def __getattr__(self, name: str) -> Any:
            """Return the method of an exporter that has none above: ``to_`` and its name."""
            write = _view("export_method")(name) if name.startswith("to_") else None
            if write is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            return partial(write, self)

    def __repr__(self) -> str:
        """Return the text card, which is what a terminal's IPython shows."""
        return self.summary()

    def _repr_html_(self) -> str:
        return _view("card")(self)


def _add_features() -> None:
    """Give `Recording` the tables and methods of features."""
    for name in TABLES.keys() - vars(Recording).keys():
        frame = _TableFrame()
        frame.__set_name__(Recording, name)
        setattr(Recording, name, frame)
    for feature in features():
        for name, function in feature.methods.items():
            setattr(Recording, name, FeatureMethod(function))


_add_features()


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


# Parts of a recording as recordings of their own: one cell's, or what its launches and compilations use.

_EVENTS = tuple(table.name for table in TABLES.values() if table.is_event)

#: Those that are of a kernel by its specialization alone.
_OF_KERNELS = tuple(name for name in _EVENTS if "specialization_id" in TABLES[name].names
                    and not {"dispatcher_id", "compilation_id", "activity_id"} & {*TABLES[name].names})

#: An array that gives for each old row number the new one, or -1 where the row is left out.
Renumbering = np.ndarray[Any, np.dtype[np.int64]]


def select_cell(recording: Recording, cell_id: int) -> Recording:
    """Return the sub-recording of one cell.

    It has the cell's launches, activities, API calls, compilations, builds, events of graphs and garbage collections,
    the compilations and builds inside those launches and the passes of all of these, and the rows of the other tables
    that they name, all renumbered; of several processes those of the cell's only. A parent launch or a requesting
    launch in another cell becomes null. What made an executable graph in another cell becomes a ``before``, as it would
    in a recording of this cell alone; a capture that began there stays where one of the launches went into it. Ranges
    and marks stay that were open at any time while the cell ran. A pass that belongs to no compilation is the cell's if
    it began while the cell ran. Health is of the recording as a whole and stays, with ``total_cost_ns`` in proportion
    to the launches. Metadata stay as they are.

    Parameters
    ----------
    recording : Recording
        Where to take it from; it is not changed.
    cell_id : int
        A row number of its table ``cells``.

    Raises
    ------
    UnknownCellError
        There is no such cell.
    """
    cells = recording.arrow("cells").num_rows
    if not 0 <= cell_id < cells:
        known = f"0 to {cells - 1}" if cells else "none"
        raise UnknownCellError(f"no cell {cell_id} in recording {recording.name!r}; known: {known}")
    processes = recording.column("cells", "process_id")
    process = int(processes[cell_id])
    if process != UNKNOWN and not np.isin(recording.column("threads", "process_id"), (UNKNOWN, process)).all():
        recording, cell_id = select_process(recording, process), int((processes[:cell_id] == process).sum())
    keep = _masks(recording, ("health",))
    keep["cells"][cell_id] = True
    for table in _EVENTS:
        if "cell_id" in TABLES[table].names:
            keep[table] = recording.column(table, "cell_id") == cell_id
    _mark(recording, keep, "launches", "compilations")
    keep["builds"] |= np.append(keep["launches"], False)[recording.column("builds", "launch_id")]
    keep["passes"] = _passes(recording, cell_id, keep["compilations"])
    keep["ranges"] = _ranges(recording, cell_id)
    for table in ("launches", "activities"):
        _mark(recording, keep, table, "graph_events")
    earlier = _earlier(recording, keep["graph_events"])
    keep["graph_events"][earlier] = True
    tables = _part(_with_before(recording, earlier, cell_id), keep)
    hooked = are_hooked(recording)
    share = int(hooked[keep["launches"]].sum()) / int(hooked.sum()) if hooked.any() else 0.0
    for name, column in (("health", "total_cost_ns"), ("processes", "own_cost_ns")):
        held = tables[name].to_pydict()
        held[column] = [None if cost is None else cost * share for cost in held[column]]
        tables[name] = make_table(name, held)
    return Recording(tables, recording.metadata)


def select_process(recording: Recording, process: int | str) -> Recording:
    """Return the sub-recording of one process: all that its threads did, its cells, its part of the GPU, its health.

    What the recording as a whole says of its health stays, and so do the metadata.

    Parameters
    ----------
    recording : Recording
        Where to take it from; it is not changed.
    process : int or str
        A row number of its table ``processes``, or a worker's name.

    Raises
    ------
    UnknownProcessError
        There is no such process.
    """
    wanted = _process_of(recording, process)
    keep = _masks(recording, ())
    keep["processes"][wanted] = True
    threads = np.append(recording.column("threads", "process_id") == wanted, False)
    for name in ("cells", *_EVENTS, "health"):
        columns = TABLES[name].names
        if "process_id" in columns:
            keep[name] = recording.column(name, "process_id") == wanted
        else:
            keep[name] = threads[recording.column(name, "thread_id")]
    keep["health"] |= recording.column("health", "process_id") == UNKNOWN
    return Recording(_part(recording, keep), recording.metadata)


def select_framework(recording: Recording, framework: str) -> Recording:
    """Return the sub-recording of one framework's kernels: launches, compiles, builds, and what these ran on the GPU.

    Kernels that graphs launched are in it where they are known to be its. Cells, ranges and health stay; copies, calls
    of the driver and the lives of graphs are no framework's, and are left out.

    Parameters
    ----------
    recording : Recording
        Where to take it from; it is not changed.
    framework : str
        What ``dispatchers`` has as a framework, or the library of kernels that no probe knows.

    Raises
    ------
    UnknownFrameworkError
        No kernel of the recording is of it.
    """
    names = [(row["framework"], row["module"] if row["framework"] == DRIVER else None)
             for row in recording.rows("dispatchers")]
    builders: list[str] = recording.column("builds", "framework").tolist()
    wanted = np.array([*(framework in each for each in names), False])
    if not wanted.any() and framework not in builders:
        known = ", ".join(dict.fromkeys([each for pair in names for each in pair if each] + builders)) or "none"
        raise UnknownFrameworkError(f"no kernel of {framework!r} in recording {recording.name!r}; known: {known}")
    keep = _masks(recording, ("processes", "cells", "ranges", "health"))
    for table in ("launches", "compilations"):
        keep[table] = wanted[recording.column(table, "dispatcher_id")]
    keep["builds"] = np.array([each == framework for each in builders], bool)
    _mark(recording, keep, "launches", "builds")  # an autotuner's, whose benchmarks launch other kernels too
    keep["passes"] = np.append(keep["compilations"], False)[recording.column("passes", "compilation_id")]
    specialization, launch = (recording.column("activities", name) for name in ("specialization_id", "launch_id"))
    owner_of = np.append(recording.column("specializations", "dispatcher_id"), UNKNOWN)
    owner = owner_of[specialization]
    for table in _OF_KERNELS:
        keep[table] = wanted[owner_of[recording.column(table, "specialization_id")]]
    keep["activities"] = np.where(launch == UNKNOWN, wanted[owner], np.append(keep["launches"], False)[launch])
    return Recording(_part(recording, keep), recording.metadata)


def _process_of(recording: Recording, process: int | str) -> int:
    """The row of a process, by its number or its worker's name."""
    names = [row["worker"] for row in recording.rows("processes")]
    if process in names:
        return names.index(process)
    if isinstance(process, int) and 0 <= process < len(names):
        return process
    known = f"0 to {len(names) - 1}" if names else "none"
    workers = ", ".join(repr(name) for name in names[:_LISTED] if name is not None)
    raise UnknownProcessError(f"no process {process!r} in recording {recording.name!r}; known: {known}"
                              + (f", and workers {workers}" if workers else ""))


#: How many names an error lists.
_LISTED = 8


def keep_used(recording: Recording) -> Recording:
    """Return the recording without the rows that none of its launches, activities, compilations and so on names.

    Processes stay. Threads, devices, dispatchers, specializations, configurations, occupancies and graphs can be of
    other recordings that ran at the same time; those that stay are renumbered. It returns a new recording and leaves
    the given one as it is.
    """
    whole = ("processes", "cells", "health", *_EVENTS)
    return Recording(_part(recording, _masks(recording, whole)), recording.metadata)


def renumbered(table: pa.Table, name: str, renumbering: dict[str, Renumbering]) -> pa.Table:
    """Return the rows of the table called `name` with new ids in the columns that name other rows.

    Parameters
    ----------
    table : pyarrow.Table
        The rows. Their own ids stay: see `numbered`.
    name : str
        Which table of the schema it is.
    renumbering : dict of str to array
        For each table its old ids' new ones. An id that has none becomes null.
    """
    for index, column in enumerate(TABLES[name].columns):
        old = table.column(index)
        if column.name in REFERENCES and column.name != TABLES[name].key and old.null_count < len(old):
            new = _new_ids(old, renumbering[REFERENCES[column.name]])
            field = table.schema.field(index)
            table = table.set_column(index, field, pa.array(new, field.type, mask=new == UNKNOWN))
    return table


def numbered(table: pa.Table, name: str) -> pa.Table:
    """Return the rows of the table called `name` with its own ids, if it has any, counted from 0."""
    if TABLES[name].key is None:
        return table
    field = table.schema.field(0)
    return table.set_column(0, field, pa.array(np.arange(table.num_rows), field.type))


def _masks(recording: Recording, whole: Sequence[str]) -> dict[str, Any]:
    """For each table a mask of the rows that stay: all of the tables in `whole`, none of the others yet."""
    return {name: np.full(recording.arrow(name).num_rows, name in whole) for name in TABLES}


def _part(recording: Recording, keep: dict[str, Any]) -> dict[str, pa.Table]:
    """The tables with the kept launches, compilations, passes and ranges and with what these name, renumbered."""
    for referring in _EVENTS:
        for referred in ("graphs", "graph_nodes"):
            _mark(recording, keep, referring, referred)
    _mark(recording, keep, "graph_nodes", "graphs")
    for table in ("graph_nodes", "graph_edges"):
        keep[table] = keep["graphs"][recording.column(table, "graph_id")]
    for referring in (*_EVENTS, "graph_nodes"):
        for referred in ("threads", "lines", "stacks", "operators", "devices", "specializations", "configurations",
                         "dispatchers"):
            _mark(recording, keep, referring, referred)
    _mark(recording, keep, "specializations", "dispatchers")
    for referring in ("threads", "cells", "health", "operators", *_EVENTS):
        _mark(recording, keep, referring, "processes")
    _mark_callers(recording.column("stacks", "parent_stack_id"), keep["stacks"])
    _mark(recording, keep, "stacks", "lines")
    for table in TABLES.values():
        if table.part_of:
            keep[table.name] = keep[table.part_of][recording.column(table.name, str(TABLES[table.part_of].key))]
    keep["occupancies"][:] = True
    for column in ("specialization_id", "configuration_id", "device_id"):
        keep["occupancies"] &= keep[REFERENCES[column]][recording.column("occupancies", column)]
    specialization = recording.column("code", "specialization_id")
    # The last row of specializations stands in for a null, whose answer is not used.
    own = np.append(keep["specializations"], True)[specialization]
    keep["code"] = keep["dispatchers"][recording.column("code", "dispatcher_id")] & own
    renumbering = {name: _renumbering(mask) for name, mask in keep.items()}
    order = _order(recording, keep["graph_events"])
    if order is not None:
        kept = np.flatnonzero(keep["graph_events"])[order]
        renumbering["graph_events"][kept] = np.arange(len(kept))
    tables = {name: renumbered(_filtered(recording.arrow(name), keep[name]), name, renumbering) for name in TABLES}
    if order is not None:
        tables["graph_events"] = tables["graph_events"].take(pa.array(order)).combine_chunks()
    return {name: numbered(table, name) for name, table in tables.items()}


def _order(recording: Recording, kept: Any) -> Any:
    """The order of kept events of graphs by start; None where they are in it."""
    starts = instants(recording.arrow("graph_events").column("start_ns"))[kept]
    return np.argsort(starts, kind="stable") if (starts[1:] < starts[:-1]).any() else None


def _mark(recording: Recording, keep: dict[str, Any], referring: str, referred: str) -> None:
    """Keep the rows of `referred` that kept rows of `referring` name."""
    for column in TABLES[referring].names:
        if REFERENCES.get(column) == referred and column != TABLES[referring].key:
            ids = recording.column(referring, column)[keep[referring]]
            keep[referred][ids[ids != UNKNOWN]] = True


def _mark_callers(parents: Any, keep: Any) -> None:
    """Keep the frames that called kept ones."""
    frames = np.flatnonzero(keep)
    while len(frames):
        frames = np.unique(parents[frames])
        frames = frames[frames != UNKNOWN]
        frames = frames[~keep[frames]]
        keep[frames] = True


def _earlier(recording: Recording, kept: Any) -> Any:
    """The events that made what kept events launch, update or rebuild, and are not kept themselves."""
    named = np.concatenate([recording.column("graph_events", name)[kept] for name in ("exec_id", "rebuild_of")])
    named = np.unique(named[named != UNKNOWN])
    return named[~kept[named]]


def _with_before(recording: Recording, earlier: Any, cell_id: int) -> Recording:
    """The recording with these events as ``before``, the graphs as they were when the cell began, not in order yet."""
    if not len(earlier):
        return recording
    events = recording.arrow("graph_events")
    graph, execs = (recording.column("graph_events", name).copy() for name in ("graph_id", "exec_id"))
    starts = recording.column("graph_events", "start_ns")
    words = (recording.column("graph_events", name) for name in ("kind", "outcome"))
    updates = np.logical_and(*(column == word for column, word in zip(words, ("update", "ok"), strict=True)))
    begin = recording.arrow("cells").column("start_ns")[cell_id].as_py()
    updates = np.flatnonzero(updates & (execs != UNKNOWN) & (starts < begin))
    graph[execs[updates]] = graph[updates]  # of several assignments to one place the last one stays
    rows = events.take(pa.array(earlier)).to_pylist()
    is_earlier = np.zeros(events.num_rows, bool)
    is_earlier[earlier] = True
    made = table_of_rows("graph_events", [
        {"graph_event_id": row["graph_event_id"], "kind": "before", "exec_id": row["graph_event_id"], "outcome": "ok",
         "graph_id": None if at == UNKNOWN else at, "attributes": row["attributes"]}
        for row, at in zip(rows, graph[earlier].tolist(), strict=True)])
    # In their old places: ids are renumbered by these, and the rows put in order afterwards.
    position = np.where(is_earlier, events.num_rows + np.cumsum(is_earlier) - 1, np.arange(events.num_rows))
    whole = pa.concat_tables([events, made]).unify_dictionaries().combine_chunks().take(pa.array(position))
    tables = {name: recording.arrow(name) for name in TABLES} | {"graph_events": whole}
    return Recording(tables, recording.metadata)


def _passes(recording: Recording, cell_id: int, compilations: Any) -> Any:
    """A mask of the passes of the kept compilations, and of those that began while the cell ran and have none."""
    compilation = recording.column("passes", "compilation_id")
    cell = recording.arrow("cells").slice(cell_id, 1).to_pylist()[0]
    end = cell["end_ns"] if cell["synchronized_ns"] is None else cell["synchronized_ns"]
    began = recording.column("passes", "start_ns")
    alone = compilation == UNKNOWN
    found = alone & is_known(began) & (began >= cell["start_ns"]) & (began <= end)
    found[~alone] = compilations[compilation[~alone]]
    return found


def _ranges(recording: Recording, cell_id: int) -> Any:
    """A mask of the ranges that were open while the cell ran; its launches can be in those of earlier cells."""
    cell = recording.arrow("cells").slice(cell_id, 1).to_pylist()[0]
    ranges = recording.arrow("ranges")
    starts, ends = (instants(ranges.column(name)) for name in ("start_ns", "end_ns"))
    return (starts <= cell["end_ns"]) & (otherwise(ends, FOREVER) >= cell["start_ns"])


def _renumbering(mask: Any) -> Renumbering:
    return np.where(mask, np.cumsum(mask) - 1, UNKNOWN)


def _filtered(table: pa.Table, mask: Any) -> pa.Table:
    return table if mask.all() else table.filter(pa.array(mask)).combine_chunks()


def _new_ids(old: pa.ChunkedArray, new: Renumbering) -> Renumbering:
    ids = (old.fill_null(UNKNOWN) if old.null_count else old).to_numpy()
    # The value at the end is what -1 takes.
    return np.append(new, UNKNOWN)[ids]
