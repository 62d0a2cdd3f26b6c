"""The life of every graph of the process, whoever makes it, from the driver's own calls."""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable
from types import ModuleType
from typing import Any

from kernelscope.clock import Clock
from kernelscope.probes.base import ImportHook, Patches, hide_frame, hook_codes
from kernelscope.probes.cuda_core.calls import Call, strangers, unseen
from kernelscope.probes.cuda_core.read import (
    CHILD,
    CONDITIONAL,
    COPY_BYTES,
    EVENT_RECORD,
    EVENT_WAIT,
    FILL_BYTES,
    HOST,
    HOST_BYTES,
    KERNEL,
    KERNEL_BYTES,
    MEMCPY,
    MEMSET,
    SUCCESS,
    UPDATE_FAILURE,
    WRONG_THREAD,
    Conditionals,
    Copies,
    Driver,
    GraphCopy,
    Node,
    Reader,
    Snapshot,
    described,
)
from kernelscope.probes.cupti.library import raise_again
from kernelscope.probes.sink import BEFORE, CallData, Sink, Source
from kernelscope.schema import UNKNOWN


class EventLog:
    """Writes events to the sink.

    Parameters
    ----------
    sink : Sink
        Where their rows go.
    driver : Driver
        Who knows what errors are called.

    Attributes
    ----------
    events : list of Event
        All of them, as they happened.
    """

    def __init__(self, sink: Sink, driver: Driver) -> None:
        self._sink = sink
        self._driver = driver
        self.events: list[Event] = []

    def add(self, kind: str, call: Call, *, copy: GraphCopy | None = None, source: Event | None = None,
            executable: Executable | None = None, **more: Any) -> Event:
        """Write down what a call did; a call that is heard of twice is the same event."""
        for written in reversed(self.events[-8:]):  # an interruption came after it had been written down
            row = written.row
            if row["start_ns"] == call.start_ns and row["thread_ident"] == call.ident and row["kind"] == kind:
                return written
        event = Event({"kind": kind, "thread_ident": call.ident, "start_ns": call.start_ns, "end_ns": call.end_ns,
                       "api": call.api, **self.outcome(call.result), "correlation_id": call.correlation_id or None,
                       "line_id": self._sink.line(), **more})
        event.copy, event.source, event.executable = copy, source, executable
        self.write(event)
        return event

    def add_earlier(self, kind: str, **more: Any) -> Event:
        """Write down what happened before recording began; nobody knows when."""
        event = Event({"kind": kind, "thread_ident": None, "start_ns": None, "end_ns": None, "outcome": "ok", **more})
        self.write(event)
        return event

    def write(self, event: Event) -> None:
        """Have the event's row in the sink, and its position in the event."""
        rows = self._sink.graphs.events
        event.position = len(rows)
        rows.append(event.row)
        self.events.append(event)

    def outcome(self, result: int) -> Row:
        """Return what came of a call, as columns."""
        if result == SUCCESS:
            return {"outcome": "ok", "error": None}
        return {"outcome": "failed", "error": self._driver.error_name(result)}


# What is known of definitions, executable graphs and events while they live.

Row = dict[str, Any]


class Event:
    """One event in the life of a graph.

    Attributes
    ----------
    row : dict
        Its row of ``graph_events``, which other threads may read already.
    position : int
        The row's place in `GraphRows.events`.
    copy : GraphCopy or None
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

    __slots__ = ("copy", "enabled", "executable", "is_finished", "node", "place", "position", "row", "source")

    def __init__(self, row: Row) -> None:
        self.row = row
        self.position = -1
        self.copy: GraphCopy | None = None
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
    copy : GraphCopy or None
        What it was when it was first instantiated.
    """

    __slots__ = ("copy", "events", "made")

    def __init__(self, made: Event) -> None:
        self.made = made
        self.events = [made]
        self.copy: GraphCopy | None = None


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


# What executable graphs of this process are, from one recording to the next: plain data, and not without bound.

MOST_GRAPHS, MOST_NODES = 512, 200_000

Known = tuple[Snapshot, tuple[int | None, ...]]


class Memory:
    """Snapshots by the id of an executable graph, which no other one of the process ever has.

    Attributes
    ----------
    captures : set of int
        The ids of the captures that the last recording has left under way.
    """

    def __init__(self) -> None:
        self.captures: set[int] = set()
        self._known: OrderedDict[int, Known] = OrderedDict()
        self._nodes = 0
        self._lock = threading.RLock()

    def remember(self, number: int | None, snapshot: Snapshot, numbers: tuple[int | None, ...]) -> None:
        """Keep what an executable graph is, and forget those that were longest not seen."""
        if number is None:
            return
        with self._lock:
            self.forget(number)
            self._known[number] = snapshot, numbers
            self._nodes += len(snapshot.nodes)
            while len(self._known) > MOST_GRAPHS or (self._nodes > MOST_NODES and len(self._known) > 1):
                self.forget(next(iter(self._known)))

    def recall(self, number: int | None) -> Known | None:
        """Return what an executable graph is, or None."""
        with self._lock:
            return self._known.get(number) if number is not None else None

    def forget(self, number: int) -> None:
        """Keep it no longer."""
        with self._lock:
            found = self._known.pop(number, None)
            if found is not None:
                self._nodes -= len(found[0].nodes)

    def __len__(self) -> int:
        return len(self._known)


# What a call says by its parameters.

#: ``CUgraphNodeParams`` begins with the type; what belongs to it follows, of a copy after its flags and context.
_INSIDE, _COPY_INSIDE = 16, 32
_OLD_KERNEL_BYTES = 56
_REFUSALS = ("", "ERROR", "TOPOLOGY_CHANGED", "NODE_TYPE_CHANGED", "FUNCTION_CHANGED", "PARAMETERS_CHANGED",
             "NOT_SUPPORTED", "UNSUPPORTED_FUNCTION_CHANGE", "ATTRIBUTES_CHANGED")
_MOST_BODIES = 65_536


def changed_node(reader: Reader, api: str, parameters: int) -> Node | None:
    """Return what a node is made by a call; None where that is not known.

    Parameters
    ----------
    reader : Reader
        Who reads parameters.
    api : str
        The function, such as cuGraphExecMemsetNodeSetParams.
    parameters : int
        Its third parameter: the address of the node's parameters, or an event or a definition.
    """
    if not parameters:
        return None
    if api == "cuGraphExecNodeSetParams":
        kind = ctypes.c_int.from_address(parameters).value
        if kind in (CHILD, EVENT_RECORD, EVENT_WAIT):
            return _node(reader, kind, ctypes.c_uint64.from_address(parameters + _INSIDE).value)
        return _node(reader, kind, parameters + (_COPY_INSIDE if kind == MEMCPY else _INSIDE))
    if api == "cuGraphExecKernelNodeSetParams":  # its first version knows no kernels but functions
        return reader.kernel_of(ctypes.string_at(parameters, _OLD_KERNEL_BYTES).ljust(KERNEL_BYTES, b"\0"))
    return _node(reader, _KINDS[api.removesuffix("_v2")], parameters)


_KINDS = {
    "cuGraphExecKernelNodeSetParams": KERNEL, "cuGraphExecMemcpyNodeSetParams": MEMCPY,
    "cuGraphExecMemsetNodeSetParams": MEMSET, "cuGraphExecHostNodeSetParams": HOST,
    "cuGraphExecChildGraphNodeSetParams": CHILD, "cuGraphExecEventRecordNodeSetEvent": EVENT_RECORD,
    "cuGraphExecEventWaitNodeSetEvent": EVENT_WAIT,
}


def conditional_of(parameters: int) -> tuple[int, tuple[int, ...]] | None:
    """Return a conditional node's type and the definitions in it, of ``CUgraphNodeParams``; None for other nodes."""
    if not parameters or ctypes.c_int.from_address(parameters).value != CONDITIONAL:
        return None
    kind, count, bodies = struct.unpack("<iIQ", ctypes.string_at(parameters + _INSIDE + 8, 16))
    if not bodies or count > _MOST_BODIES:
        return kind, ()
    return kind, struct.unpack(f"<{count}Q", ctypes.string_at(bodies, 8 * count))


def refusal(call: Call, copy: GraphCopy | None) -> str:
    """Return why an update was refused, and at which node of what it was given."""
    information = call.word(2)
    if call.api == "cuGraphExecUpdate":  # the node and the result stand where two pointers point to
        told = call.word(3)
        result = ctypes.c_int.from_address(told).value if told else 1
        node = call.pointed(2) if information else 0
    else:  # CUgraphExecUpdateResultInfo
        result, node = struct.unpack("<i4xQ", ctypes.string_at(information, 16)) if information else (1, 0)
    name = f"CU_GRAPH_EXEC_UPDATE_{_REFUSALS[1]}" if result == 1 else \
        f"CU_GRAPH_EXEC_UPDATE_ERROR_{_REFUSALS[result]}" if 0 < result < len(_REFUSALS) else f"update result {result}"
    if copy is None or node not in copy.handles:
        return name
    place = copy.handles.index(node)
    if copy.content is None:
        return f"{name} at node {place}"
    return f"{name} at node {place}, {described(copy.content.snapshot.nodes[place])}"


def _node(reader: Reader, kind: int, where: int) -> Node | None:
    if kind == KERNEL:
        return reader.kernel_of(ctypes.string_at(where, KERNEL_BYTES))
    if kind == MEMCPY:
        return reader.copy_of(ctypes.string_at(where, COPY_BYTES))
    if kind == MEMSET:
        return reader.fill_of(ctypes.string_at(where, FILL_BYTES))
    if kind == HOST:
        return reader.host_of(ctypes.string_at(where, HOST_BYTES))
    if kind == CHILD:
        content = reader.read(where)
        return None if content is None else Node("child", bodies=(content.snapshot,))
    if kind in (EVENT_RECORD, EVENT_WAIT):
        name = "event_record" if kind == EVENT_RECORD else "event_wait"
        return Node(name, arguments=where.to_bytes(8, "little"), layout=((0, 8),))
    return None


# Captures that were under way when recording began: nothing told of their beginning, so the driver is asked.

#: Handles that stand for another stream in each thread and context.
_SPECIAL = (0, 1, 2)


class EarlierCaptures:
    """Looks for captures on the streams that something was launched into, and that are alive.

    Parameters
    ----------
    driver : Driver
        Who knows which capture a stream is part of.
    left : iterable of int
        The ids of captures that were under way when the last recording ended; no other capture of the process ever has
        them. Their streams may be gone, so that nobody may ask about those: they count as under way until one of them
        is seen to end, or another recording has ended.

    Attributes
    ----------
    left : set of int
        Those of which nothing was seen yet.
    """

    def __init__(self, driver: Driver, left: Iterable[int] = ()) -> None:
        self._driver = driver
        self.left = set(left)

    def find(self, alive: Iterable[int], known: Container[int] = ()) -> dict[int, list[int]]:
        """Return the streams of each capture that is under way by its id, but of those in `known`.

        `alive` are the handles of streams that were not destroyed.
        """
        found: dict[int, list[int]] = {}
        for stream in dict.fromkeys(alive):
            number = None if stream in _SPECIAL else self._driver.capture_of(stream)
            if number is not None:
                found.setdefault(number, []).append(stream)
        self.left.difference_update(found)
        return {number: streams for number, streams in found.items() if number not in known}


# Whether somebody makes graphs where nothing tells of the driver's calls: then health says that they are not seen.

class UnseenGraphs:
    """Counts graph builders that cuda.core makes.

    Attributes
    ----------
    count : int
        How many were made since recording began.
    """

    def __init__(self) -> None:
        self.count = 0
        self._patches = Patches()
        self._import = ImportHook("cuda.core", self._imported)

    def begin(self) -> None:
        """Count from now on, or from when cuda.core is imported."""
        self._import.arm()

    def end(self) -> None:
        """Count no more."""
        self._import.disarm()
        self._patches.undo()

    def _imported(self, module: ModuleType) -> None:
        device: Any = getattr(module, "Device", None)
        if isinstance(device, type) and "create_graph_builder" in vars(device):
            self._patches.hook(device, "create_graph_builder", self._counting, lend=False)

    def _counting(self, original: Any) -> Any:
        def create_graph_builder(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                hide_frame(error)
                raise

        hook_codes.add(create_graph_builder.__code__)
        return functools.wraps(original)(create_graph_builder)


# The life of every graph of the process, whoever makes it, from the driver's own calls.

#: Streams that stand for another one in each thread.
_PER_THREAD = 2
#: Functions that are watched while something else goes on: a capture, or the making of a conditional node.
WAIT = ("cuStreamWaitEvent", "cuStreamWaitEvent_ptsz")
ADD = ("cuGraphAddNode", "cuGraphAddNode_v2")


class GraphWatch:
    """Writes down what happens to graphs, as a `kernelscope.probes.sink.Listener`.

    Parameters
    ----------
    sink : Sink
        Where the rows of events go, as they happen.
    driver : Driver
        Whom to ask about a graph.
    left : mapping of int to list of int
        The `captures_under_way` when the last recording ended.
    """

    def __init__(self, sink: Sink, driver: Driver, left: Iterable[int]) -> None:
        self._sink = sink
        self._clock: Clock = sink.clock
        self._driver = driver
        # Of this recording only: of a handle of an earlier one nobody knows what it is by now.
        self._conditionals: Conditionals = {}
        self._conditional_nodes: dict[int, list[int]] = {}
        self._reader = Reader(driver, self._conditionals)
        self._copies = Copies(driver, self._reader)
        self._source: Source | None = None
        self._captures: dict[Any, Event] = {}
        self.earlier = EarlierCaptures(driver, left)
        self._definitions: dict[int, Definition] = {}
        self._executables: dict[int, Executable] = {}
        self._numbered: dict[int | None, Executable] = {}
        self._bodies: dict[int, list[Event]] = {}
        self._conditions = 0
        # Graphs of earlier times that were closed: if nothing else happens to them, that is nobody's business.
        self._going: dict[int, int | None] = {}
        self._others: dict[int | None, Call] = {}
        self._strangers: set[bytes] = set()
        self._handlers = self._made_handlers()
        self.lock = threading.RLock()
        self._log = EventLog(sink, driver)
        self.events = self._log.events
        self.problems: list[str] = list(driver.missing)
        self.was_told = False
        self.was_strange = False

    # ---- the listener ----

    def begin(self, source: Source) -> None:
        """Have the source tell of graphs. See `Listener.begin`."""
        self._source = source
        self.was_told = True
        self.problems += unseen(source.functions)
        known = {name.decode() for name in self._handlers}
        self._strangers = {name.encode() for name in strangers(source.functions, known)}
        source.switch((name.decode() for name in self._strangers), True)
        source.switch((name for name in known & source.functions if name not in WAIT + ADD), True)
        self._find_earlier()

    def end(self) -> None:
        """Read what is still to be read, and have the source tell no more. See `Listener.end`."""
        try:
            with self.lock:
                self.settle()
        except Exception as problem:
            self._sink.swallow("cuda.core", problem)
        source = self._source
        if source is not None:
            names = {name.decode() for name in {*self._handlers, *self._strangers}}
            source.switch(names & source.functions, False)

    def called(self, data: int) -> None:
        """Hear of one call. See `Listener.called`."""
        try:
            self._hear(data)
        except Exception as problem:
            self._sink.swallow("cuda.core", problem)
        except BaseException as interruption:
            self._hear_again(data)
            self._interrupt(interruption)

    def _hear_again(self, data: int) -> None:
        """Hear of a call which an interruption came into: what was written down already is not once more."""
        try:
            self._hear(data)
        except Exception as problem:
            self._sink.swallow("cuda.core", problem)
        except BaseException as interruption:
            self._interrupt(interruption)

    def _interrupt(self, interruption: BaseException) -> None:
        if not raise_again(interruption):
            self._sink.swallow("cuda.core", interruption)

    def _hear(self, data: int) -> None:
        call = CallData.from_address(data)
        found = self._handlers.get(call.name or b"")
        if found is None:
            if call.name in self._strangers:
                self.problems.append(f"calls of {call.name.decode()} are not seen: it is newer than this KernelScope")
                self._strangers.discard(call.name)
                self.was_strange = True
            return
        before, after = found
        if call.site != BEFORE:
            name = (call.name or b"").decode()
            told = Call(call, name, self._clock())
            if after is not None:
                with self.lock:
                    after(told)
            return
        if before is not None:
            with self.lock:
                before(Call(call, "", 0))
        if call.kept:
            call.kept[0] = self._clock()  # last: what was done before is no part of the call

    # ---- captures ----

    def captures_under_way(self) -> set[int]:
        """Return the ids of the captures that are under way, as far as they are known."""
        with self.lock:
            seen = {number for number in self._captures if isinstance(number, int)}
            return seen.union(self.earlier.find(self._sink.streams()))

    def _find_earlier(self, *alive: int) -> None:
        """Write down captures that were under way when recording began."""
        for number, streams in self.earlier.find([*alive, *self._sink.streams()], self._captures).items():
            self._captures[number] = self._log.add_earlier("capture", stream=streams[0], streams=streams)
            self._switch(WAIT, True)

    def _capture_ending(self, call: Call) -> None:
        if all(call.word(0) not in event.row["streams"] for event in self._captures.values()):
            self._find_earlier(call.word(0))

    def _captured(self, call: Call) -> None:
        stream = call.word(0)
        into = call.word(1) if call.api == "cuStreamBeginCaptureToGraph" else 0
        on = self._driver.device()
        event = self._log.add("capture", call, stream=stream, streams=[stream], end_ns=None,
                              device=UNKNOWN if on is None else on)
        if call.result != SUCCESS:
            event.row["end_ns"] = call.end_ns
            return
        key = self._driver.capture_of(stream, call.name.endswith("_ptsz")) or (stream, call.ident)
        for stale in self._captures_on(stream, call.ident, event.row["device"]):
            del self._captures[stale]  # its stream was destroyed meanwhile
        self._captures[key] = event
        if into in self._definitions:
            self._definitions[into].events.append(event)
        elif into:
            self._bodies.setdefault(into, []).append(event)
        self._switch(WAIT, True)

    def _capture_ended(self, call: Call) -> None:
        stream = call.word(0)
        if call.result == WRONG_THREAD:
            return  # it goes on
        on = self._driver.device()
        key = next(iter(self._captures_on(stream, call.ident, UNKNOWN if on is None else on)), None)
        if key is None:
            return  # it began before recording did
        event = self._captures[key]
        event.row |= {"end_ns": call.end_ns, **self._log.outcome(call.result)}
        graph = call.pointed(1) if call.result == SUCCESS else 0
        if graph and event.row.get("api") != "cuStreamBeginCaptureToGraph":
            self._definitions[graph] = Definition(event)
        del self._captures[key]
        if not self._captures:
            self._switch(WAIT, False)

    def _captures_on(self, stream: int, ident: int, device: int) -> list[Any]:
        """The captures that a stream began: a handle below 3 is another stream on each device, and in each thread."""
        return [
            key for key, event in self._captures.items() if event.row["stream"] == stream
            and (stream > _PER_THREAD or (event.row["thread_ident"] == ident
                                          and event.row.get("device", UNKNOWN) in (device, UNKNOWN)))]

    def _waited(self, call: Call) -> None:
        stream = call.word(0)
        event = self._captures.get(self._driver.capture_of(stream, call.name.endswith("_ptsz")))
        if event is not None and stream not in event.row["streams"]:
            event.row["streams"].append(stream)

    # ---- definitions ----

    def _created(self, call: Call) -> None:
        if call.result == SUCCESS and not self._copies.is_own_slot(call.word(0)):
            self._definitions[call.pointed(0)] = Definition(self._log.add("define", call))

    def _destroying(self, call: Call) -> None:
        graph = call.word(0)
        if self._copies.is_own_copy(graph):
            return
        definition = self._definitions.get(graph)
        if definition is not None and definition.copy is None and not self._is_captured_into(graph):
            definition.copy = self._copy_of(graph)
            self._share(definition)
        self._copies.going(graph)

    def _destroyed(self, call: Call) -> None:
        graph = call.word(0)
        if call.result == SUCCESS and not self._copies.is_own_copy(graph):
            definition = self._definitions.pop(graph, None)
            self._forget_conditionals(graph, definition.copy if definition is not None else None)

    def _forget_conditionals(self, graph: int, copy: GraphCopy | None) -> None:
        """Forget what is inside of a definition that is gone: its handles may soon be something else."""
        for node in self._conditional_nodes.pop(graph, ()):
            for body in self._conditionals.pop(node, (0, ()))[1]:
                self._forget_conditionals(body, copy)
                for captured in self._bodies.pop(body, ()):
                    captured.copy = copy

    def _condition(self, call: Call) -> None:
        if call.result == SUCCESS:
            self._conditions += 1
            self._switch(ADD, True)

    def _added(self, call: Call) -> None:
        found = conditional_of(call.word(5 if call.api.endswith("_v2") else 4))
        if found is None or call.result != SUCCESS:
            return
        self._conditionals[call.pointed(0)] = found
        self._conditional_nodes.setdefault(call.word(1), []).append(call.pointed(0))
        self._conditions = max(0, self._conditions - 1)
        if not self._conditions:
            self._switch(ADD, False)

    # ---- executable graphs ----

    def _instantiated(self, call: Call) -> None:
        graph = call.word(1)
        handle = call.pointed(0) if call.result == SUCCESS else 0
        copy = self._copy_of(graph, *((graph, handle) if handle else ()))
        definition = self._definitions.get(graph)
        number = self._source.exec_id(handle) if handle and self._source is not None else None
        event = self._log.add("instantiate", call, copy=copy, source=definition.made if definition else None)
        if handle:
            event.executable = self._executables[handle] = Executable(event, number, copy.handles if copy else [])
            self._numbered[number] = event.executable
        if definition is not None and definition.copy is None:
            definition.copy = copy
            self._share(definition)

    def _updated(self, call: Call) -> None:
        graph, refused = call.word(1), call.result == UPDATE_FAILURE
        executable = self._executable(call.word(0))
        # What is refused is read at once, so that it can be said where.
        owners = () if refused else (graph, call.word(0))
        copy = self._copy_of(graph, *owners) if refused or call.result == SUCCESS else None
        definition = self._definitions.get(graph)
        more: Row = {}
        if refused:
            more = {"outcome": "refused", "error": refusal(call, copy)}
        self._log.add("update", call, copy=copy, source=definition.made if definition else None, executable=executable,
                    **more)

    def _node_changed(self, call: Call) -> None:
        executable = self._executable(call.word(0))
        handle, handles = call.word(1), executable.handles
        more: Row = {} if call.result == SUCCESS else {"outcome": "refused"}
        event = self._log.add("update", call, executable=executable, **more)
        if call.result == SUCCESS and handle in handles:
            event.place = handles.index(handle)
            if call.api == "cuGraphNodeSetEnabled":
                event.enabled = bool(call.word(2) & 0xFFFFFFFF)
            else:
                event.node = changed_node(self._reader, call.api, call.word(2))

    def _uploaded(self, call: Call) -> None:
        self._log.add("upload", call, executable=self._executable(call.word(0)), stream=call.word(1))

    def _closing(self, call: Call) -> None:
        handle = call.word(0)
        if handle not in self._executables and self._source is not None:
            self._going[handle] = self._source.exec_id(handle)  # while the driver can still say which one it is
        self._copies.going(handle)

    def _closed(self, call: Call) -> None:
        handle = call.word(0)
        executable = self._executables.get(handle)
        if executable is not None:
            self._log.add("close", call, executable=executable)
        else:
            self._others[self._going.pop(handle, None)] = call
        if call.result == SUCCESS:
            self._executables.pop(handle, None)

    def _unloading(self, call: Call) -> None:
        self._copies.read_all()  # afterwards its kernels have no names any more

    # ---- at stop ----

    def settle(self) -> None:
        """Read every graph that was copied, and those that live and were never instantiated."""
        self._find_earlier()
        self._copies.read_all()
        for graph, definition in list(self._definitions.items()):
            if definition.copy is None and self._is_quiet(graph, definition):
                copy = self._copy_of(graph)
                for event in definition.events:
                    event.copy = copy
        for event in self.events:
            for body in event.copy.content.bodies if event.copy is not None and event.copy.content is not None else ():
                for captured in self._bodies.pop(body, ()):
                    captured.copy = event.copy

    def executable_of(self, number: int) -> Executable:
        """Return the executable graph of an id, which was there before recording began where none is known."""
        found = self._numbered.get(number)
        if found is not None:
            return found
        executable = self._before(number)
        closed = self._others.pop(number, None)
        if closed is not None:
            self._log.add("close", closed, executable=executable)
        return executable

    # ---- helpers ----

    def _executable(self, handle: int) -> Executable:
        found = self._executables.get(handle)
        if found is None:
            number = self._source.exec_id(handle) if self._source is not None else None
            found = self._executables[handle] = self._before(number)
        return found

    def _before(self, number: int | None) -> Executable:
        event = self._log.add_earlier("before")
        event.executable = self._numbered[number] = Executable(event, number, [])
        return event.executable

    def _copy_of(self, graph: int, *owners: int) -> GraphCopy | None:
        return self._copies.take(graph, owners, self._number)

    def _number(self, handle: int) -> int | None:
        return self._source.node_number(handle) if self._source is not None else None

    def _share(self, definition: Definition) -> None:
        for event in definition.events:
            event.copy = definition.copy

    def _is_quiet(self, graph: int, definition: Definition) -> bool:
        """Whether no other thread may be about to add to a definition: the driver has no lock on it."""
        made = definition.made.row
        return not self._is_captured_into(graph) and (made["kind"] == "capture"
                                                      or made["thread_ident"] == threading.get_ident())

    def _is_captured_into(self, graph: int) -> bool:
        into = self._definitions[graph].events if graph in self._definitions else []
        return any(event in into for event in self._captures.values())

    def _switch(self, functions: tuple[str, ...], on: bool) -> None:
        if self._source is not None:
            self._source.switch((name for name in functions if name in self._source.functions), on)

    def _made_handlers(self) -> dict[bytes, tuple[Callable[[Call], None] | None, Callable[[Call], None] | None]]:
        """What is done before and after each function."""
        nodes = ("cuGraphExecNodeSetParams", "cuGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams_v2",
                 "cuGraphExecMemcpyNodeSetParams", "cuGraphExecMemsetNodeSetParams", "cuGraphExecHostNodeSetParams",
                 "cuGraphExecChildGraphNodeSetParams", "cuGraphExecEventRecordNodeSetEvent",
                 "cuGraphExecEventWaitNodeSetEvent", "cuGraphNodeSetEnabled")
        found: dict[str, Any] = {
            # Those without a version are what libraries call that look the functions up by their first names.
            "cuStreamBeginCapture": (None, self._captured), "cuStreamBeginCapture_v2": (None, self._captured),
            "cuStreamBeginCaptureToGraph": (None, self._captured),
            "cuStreamEndCapture": (self._capture_ending, self._capture_ended),
            "cuGraphCreate": (None, self._created), "cuGraphClone": (None, self._created),
            "cuGraphDestroy": (self._destroying, self._destroyed), "cuStreamWaitEvent": (None, self._waited),
            "cuGraphConditionalHandleCreate": (None, self._condition),
            "cuGraphAddNode": (None, self._added), "cuGraphAddNode_v2": (None, self._added),
            "cuGraphInstantiate": (None, self._instantiated), "cuGraphInstantiate_v2": (None, self._instantiated),
            "cuGraphInstantiateWithFlags": (None, self._instantiated),
            "cuGraphInstantiateWithParams": (None, self._instantiated),
            "cuGraphExecUpdate": (None, self._updated), "cuGraphExecUpdate_v2": (None, self._updated),
            "cuGraphUpload": (None, self._uploaded), "cuGraphExecDestroy": (self._closing, self._closed),
            "cuModuleUnload": (self._unloading, None), "cuLibraryUnload": (self._unloading, None),
            **dict.fromkeys(nodes, (None, self._node_changed)),
        }
        found |= {f"{name}_ptsz": what for name, what in found.items()
                  if name.startswith("cuStream") or name in ("cuGraphUpload", "cuGraphInstantiateWithParams")}
        return {name.encode(): what for name, what in found.items()}
