"""Finds frameworks, features and importers: folders of the packages of these names, and entry points.

Each declares itself in its ``__init__``, as ``FRAMEWORK``, ``FEATURE`` or ``IMPORTER``. Nothing else names them, so
that a folder can be removed. A package of somebody else declares one with an entry point of the group
``kernelscope.frameworks``, ``kernelscope.features`` or ``kernelscope.importers``.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import pkgutil
import types
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Framework:
    """What KernelScope knows of a framework without importing it, or anything that hooks or explains it.

    Attributes
    ----------
    name : str
        What recordings call it, in the column ``framework``.
    module : str
        The module whose import may start CUDA; empty for one that brings its own driver calls through another.
    probe : str
        The class of its probe, as ``module:name``; empty for one that is hooked elsewhere.
    fixes : str
        The `kernelscope.analysis.cache_keys.Fixes` for the reasons of its compiles, as ``module:name``.
    packages : mapping of str to str
        The distributions that it comes in, with what is recorded of it, for ``kernelscope doctor``.
    compiles : bool
        Whether it compiles what the user wrote for the arguments of each call.
    is_seen_by_cupti : bool
        Whether CUPTI alone sees its launches.
    remedies : mapping
        What its users can do, by the names of the tables of `kernelscope.analysis.remedies`.
    """

    name: str
    module: str = ""
    probe: str = ""
    fixes: str = ""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    compiles: bool = True
    is_seen_by_cupti: bool = False
    remedies: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class LiveDrawing:
    """What draws a `kernelscope.views.card.blocks.Drawing` of a section live: beside the timeline, and on pages.

    Attributes
    ----------
    front_end : str
        Its file in ``kernelscope/static``, without the suffix; the page's header has its data under this name.
    page : str
        The file that shows a page's timeline and it, in place of ``timeline_page``.
    data : str
        A function of a recording that returns the data as base64, an empty text where there are none.
    """

    front_end: str
    page: str
    data: str


@dataclass(frozen=True)
class CardSection:
    """A section of the card, and the member of an answer for programs that has the same numbers.

    Attributes
    ----------
    order : int
        Where it stands: see ``SECTIONS`` in `kernelscope.views.card.sections`.
    tables : tuple of str
        The tables that it is made from: where none of them has a row there is no such section.
    section : str
        A function of an `kernelscope.views.card.model.Overview` that returns the section, as ``module:name``; None
        where it has nothing to say.
    member : str
        A function of an `Overview` that returns the member of the answer, which has the feature's name; empty for none.
    member_type : str
        The type of that member, from which the JSON schema is made.
    meanings : str
        What the columns of its tables mean, as in `kernelscope.views.card.meanings.COLUMNS`.
    kernel_note : str
        A function of an `Overview` and a dispatcher id that returns what stands beside where a kernel is defined, in
        the section of kernels; an empty text for nothing.
    live : LiveDrawing or None
        What draws a block of it live.
    """

    order: int
    tables: tuple[str, ...]
    section: str
    member: str = ""
    member_type: str = ""
    meanings: str = ""
    kernel_note: str = ""
    live: LiveDrawing | None = None


@dataclass(frozen=True)
class ShowOption:
    """An option of ``kernelscope show``, which then prints something else than the card.

    Attributes
    ----------
    name : str
        The option without its dashes.
    help : str
        What it prints.
    text : str
        A function of a recording that returns it.
    """

    name: str
    help: str
    text: str


@dataclass(frozen=True)
class Feature:
    """What one feature adds, each part as ``module:name`` so that nothing of it is imported before it is needed.

    Attributes
    ----------
    name : str
        Its name: that of its probe in ``health`` and of its member of answers, and mostly of its option.
    needs : tuple of str
        Other features that it is made from, by name: without one of them it is left out.
    tables : str
        A tuple of `kernelscope.schema.Table`.
    options : str
        A frozen dataclass derived from `kernelscope.recorder.core_options.CoreOptions`: its fields become options of
        ``record()`` and of the command line.
    probes : str
        A function of the options that returns the feature's probes, a list, and rows of ``health`` about what cannot
        be recorded here. It is called where one of the feature's options is not at its default.
    rows : str
        A function of `kernelscope.recording.build.RawRecording` and of the columns of ``launches`` that returns the
        rows of the feature's tables by name, or columns for tables that can be long. Without it they are what the
        probes added to ``Sink.rows``.
    reporters : tuple of str
        Names of its probes in ``health`` that are not the feature's.
    joins : str
        A function of a `RawRecording`, of the columns of ``launches`` and of those of ``activities``, which adds to
        them ids of rows of a table of the core's that nothing else makes, and returns such rows by table.
    advice : str
        A tuple of `kernelscope.analysis.advice.Rule`.
    methods : mapping of str to str
        Methods of `kernelscope.Recording`: functions of a recording.
    recorder_methods : mapping of str to str
        Methods of `kernelscope.Recorder`: functions of a recorder.
    functions : mapping of str to str
        Public functions of the package `kernelscope`.
    commands, magics : mapping of str to str
        Its verbs of ``kernelscope`` and of ``%kernelscope``, with a line on each.
    verbs : str
        The `kernelscope.commands.verb.Verb` of each of them, by name.
    answers : tuple of str
        The `kernelscope.views.answer.Answer` of its verbs with ``--json``.
    range_domains : mapping of str to str
        Domains of ranges each of which is work of its own, which no other thread waits for, with the titles of their
        lanes. The card's section of ranges leaves them to the feature's.
    show : tuple of ShowOption
        What ``kernelscope show`` prints of it.
    exporters : str
        A tuple of `kernelscope.views.exports.Exporter`: the formats in which it writes a recording.
    lanes : str
        A function of a `kernelscope.views.timeline.build.Builder` that returns
        `kernelscope.views.timeline.build.CounterSamples`, which become lanes below the streams of a device.
    card : CardSection or None
        Its section of the card.
    charts : str
        A function of a recording that returns Plotly figures, which stand below a cell's other charts.
    code_counts : str
        A `kernelscope.views.inspector.counts.CodeCounts`: what the inspector draws beside lines of code.
    hot_line : str
        A function of a recording, a dispatcher id and a group of reasons (``memory``) that returns at which line a
        kernel spends most of it, as a sentence with a space before it, or an empty text.
    since_last_run : str
        A function of a notebook's recordings, the oldest first, and of a new one, which returns what makes the line
        *Since the last run* of its card: a function of the recording as it is shown, which must not hold the recording
        itself; or None where the cell did not run before.
    tools : mapping of str to str
        Its tools of ``kernelscope mcp``: functions of a `kernelscope.commands.mcp.Folder`, of the
        `kernelscope.progress.Progress` of who waits (or None), and of what an assistant gives, which return a
        `kernelscope.commands.mcp.Answered`. The assistant reads their docstrings.
    tool_instructions : str
        What the server tells an assistant of them: a sentence.
    """

    name: str
    needs: tuple[str, ...] = ()
    tables: str = ""
    options: str = ""
    probes: str = ""
    rows: str = ""
    reporters: tuple[str, ...] = ()
    joins: str = ""
    advice: str = ""
    methods: Mapping[str, str] = field(default_factory=dict[str, str])
    recorder_methods: Mapping[str, str] = field(default_factory=dict[str, str])
    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    commands: Mapping[str, str] = field(default_factory=dict[str, str])
    magics: Mapping[str, str] = field(default_factory=dict[str, str])
    verbs: str = ""
    answers: tuple[str, ...] = ()
    range_domains: Mapping[str, str] = field(default_factory=dict[str, str])
    show: tuple[ShowOption, ...] = ()
    exporters: str = ""
    lanes: str = ""
    card: CardSection | None = None
    charts: str = ""
    code_counts: str = ""
    hot_line: str = ""
    since_last_run: str = ""
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    tool_instructions: str = ""


@dataclass(frozen=True)
class Importer:
    """What reads the traces of other tools in one format.

    Attributes
    ----------
    name : str
        Its name.
    formats : str
        What it reads, for help, with an article.
    producers : mapping of str to str
        Who writes such traces: the word of ``health``, which is the ``probe`` of a
        `kernelscope.recording.traces.Trace`, and the name for people.
    is_trace : str
        A function of a path and of the first bytes there (`kernelscope.recording.trace_files.HEAD_BYTES`; none of a
        folder) that returns whether it is surely such a trace, as ``module:name``.
    may_be_trace : str
        Likewise, whether it looks like one. Where no importer is sure, ``read`` says what is wrong with it.
    read : str
        A function of a path and of a `kernelscope.progress.Progress` or None that returns a recording.
    suffixes : tuple of str
        Endings of such files' names, without a dot, which are no part of the recording's name.
    """

    name: str
    formats: str
    producers: Mapping[str, str]
    is_trace: str
    read: str
    may_be_trace: str = ""
    suffixes: tuple[str, ...] = ()


@functools.cache
def frameworks() -> tuple[Framework, ...]:
    """Return the frameworks, those of this package in order of their folders' names."""
    return tuple(_declared("frameworks", "FRAMEWORK", Framework))


@functools.cache
def features() -> tuple[Feature, ...]:
    """Return the features, those of this package in order of their folders' names."""
    declared: list[Feature] = [*_declared("features", "FEATURE", Feature)]
    names = {feature.name for feature in declared}
    return tuple(feature for feature in declared if names.issuperset(feature.needs))


@functools.cache
def importers() -> tuple[Importer, ...]:
    """Return the importers of traces, those of this package in order of their folders' names."""
    return tuple(_declared("importers", "IMPORTER", Importer))


def _declared(room: str, name: str, kind: type[Any]) -> Iterator[Any]:
    """Yield what the folders of a room declare under this name, and what the entry points of its group name.

    An entry point that names nothing of the kind is left out, with a warning: it is another package's.
    """
    package = importlib.import_module(f"kernelscope.{room}")
    for folder in pkgutil.iter_modules(package.__path__):
        if folder.ispkg:
            yield getattr(importlib.import_module(f"{package.__name__}.{folder.name}"), name)
    for entry in entry_points(f"kernelscope.{room}"):
        try:
            declared = entry.load()
            if not isinstance(declared, kind):
                raise TypeError(f"{entry.value} is a {type(declared).__name__}, not a {kind.__name__}")
        except Exception as problem:
            where = entry.dist.name if entry.dist is not None else entry.value
            warnings.warn(f"{entry.name} of {where} is left out of kernelscope.{room}: {type(problem).__name__}: "
                          f"{problem}", RuntimeWarning, stacklevel=2)
        else:
            yield declared


def entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
    """Return the entry points of a group in order of their names; the packages are looked through once a process."""
    return sorted(_entry_points().select(group=group), key=lambda entry: (entry.name, entry.value))


@functools.cache
def _entry_points() -> Any:
    return importlib.metadata.entry_points()


@functools.cache
def loaded(name: str) -> Any:
    """Return the object called ``module:name``, whose module is imported for it."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


class FeatureMethod:
    """A method that a feature adds to a class: a function of the object, imported when it is first used."""

    def __init__(self, function: str) -> None:
        self._function = function

    def __get__(self, instance: Any, owner: type) -> Any:
        function = loaded(self._function)
        return function if instance is None else types.MethodType(function, instance)
