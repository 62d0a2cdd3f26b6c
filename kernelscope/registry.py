"""Finds frameworks and features: folders of `kernelscope.frameworks` and `kernelscope.features`, and entry points.

Each declares itself in its ``__init__``, as ``FRAMEWORK`` or ``FEATURE``. Nothing else names them, so that a folder can
be removed. A package of somebody else declares one with an entry point of the group
``kernelscope.features`` or ``kernelscope.frameworks``.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import pkgutil
import types
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
class CardSection:
    """A section of the card, and the member of an answer for programs that has the same numbers.

    Attributes
    ----------
    order : int
        Where it stands: see ``SECTIONS`` in `kernelscope.views.card.sections`.
    tables : tuple of str
        The tables that it is made from: where none of them has a row there is no such section.
    section : str
        A function of an `kernelscope.views.card.model.Overview` that returns the section, as ``module:name``.
    member : str
        A function of an `Overview` that returns the member of the answer, which has the feature's name.
    member_type : str
        The type of that member, from which the JSON schema is made.
    """

    order: int
    tables: tuple[str, ...]
    section: str
    member: str
    member_type: str


@dataclass(frozen=True)
class Feature:
    """What one feature adds, each part as ``module:name`` so that nothing of it is imported before it is needed.

    Attributes
    ----------
    name : str
        Its name: that of its option, its probe in ``health``, and its member of answers.
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
    """

    name: str
    needs: tuple[str, ...] = ()
    tables: str = ""
    options: str = ""
    probes: str = ""
    rows: str = ""
    advice: str = ""
    methods: Mapping[str, str] = field(default_factory=dict[str, str])
    recorder_methods: Mapping[str, str] = field(default_factory=dict[str, str])
    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    commands: Mapping[str, str] = field(default_factory=dict[str, str])
    magics: Mapping[str, str] = field(default_factory=dict[str, str])
    verbs: str = ""
    answers: tuple[str, ...] = ()
    lanes: str = ""
    card: CardSection | None = None
    charts: str = ""
    code_counts: str = ""
    hot_line: str = ""


@functools.cache
def frameworks() -> tuple[Framework, ...]:
    """Return the frameworks, those of this package in order of their folders' names."""
    return tuple(_declared("frameworks", "FRAMEWORK"))


@functools.cache
def features() -> tuple[Feature, ...]:
    """Return the features, those of this package in order of their folders' names."""
    declared: list[Feature] = [*_declared("features", "FEATURE")]
    names = {feature.name for feature in declared}
    return tuple(feature for feature in declared if names.issuperset(feature.needs))


def _declared(room: str, name: str) -> Iterator[Any]:
    """Yield what the folders of a room declare under this name, and what the entry points of its group name."""
    package = importlib.import_module(f"kernelscope.{room}")
    for folder in pkgutil.iter_modules(package.__path__):
        if folder.ispkg:
            yield getattr(importlib.import_module(f"{package.__name__}.{folder.name}"), name)
    for entry in sorted(importlib.metadata.entry_points(group=f"kernelscope.{room}"), key=lambda entry: entry.name):
        yield entry.load()


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
