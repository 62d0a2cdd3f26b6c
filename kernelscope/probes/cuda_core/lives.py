"""What is known of definitions, executable graphs and events while they live; rows are made of it at stop."""

from __future__ import annotations

from typing import Any

from kernelscope.probes.cuda_core.fingerprint import Node, Snapshot
from kernelscope.probes.cuda_core.holding import Held

Row = dict[str, Any]


class Event:
    """One event in the life of a graph.

    Attributes
    ----------
    row : dict
        Its row of ``graph_events``, which other threads may read already.
    position : int
        The row's place in `GraphRows.events`.
    held : Held or None
        The graph that it is about.
    source : Event or None
        Of instantiate and update: what made the definition.
    executable : Executable or None
        The executable graph.
    node : Node or None
        Of an update of one node: what it is now; `place` is its position.
    is_finished : bool
        Whether the row is complete.
    """

    __slots__ = ("enabled", "executable", "held", "is_finished", "node", "place", "position", "row", "source")

    def __init__(self, row: Row) -> None:
        self.row = row
        self.position = -1
        self.held: Held | None = None
        self.source: Event | None = None
        self.executable: Executable | None = None
        self.node: Node | None = None
        self.place: int | None = None
        self.enabled: bool | None = None
        self.is_finished = False


class Definition:
    """A graph definition that lives.

    Attributes
    ----------
    made : Event
        What made it: the first capture into it, or its creation.
    events : list of Event
        Those whose graph it is: its creation, and captures into it.
    held : Held or None
        What it was when it was first instantiated.
    """

    __slots__ = ("events", "held", "made")

    def __init__(self, made: Event) -> None:
        self.made = made
        self.events = [made]
        self.held: Held | None = None


class Executable:
    """An executable graph.

    Attributes
    ----------
    number : int or None
        CUPTI's id of it.
    made : Event
        The event ``instantiate``, or ``before``.
    handles : list of int
        The nodes of the definition that it was instantiated from; empty where that was not seen.
    snapshot, numbers : Snapshot and tuple, or None
        What it is after the events that are finished, and the numbers of its nodes.
    """

    __slots__ = ("handles", "made", "number", "numbers", "snapshot")

    def __init__(self, made: Event, number: int | None, handles: list[int]) -> None:
        self.made = made
        self.number = number
        self.handles = handles
        self.snapshot: Snapshot | None = None
        self.numbers: tuple[int | None, ...] = ()
