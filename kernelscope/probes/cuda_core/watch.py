"""The life of every graph of the process, whoever makes it, from the driver's own calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from kernelscope.clock import Clock
from kernelscope.probes.cuda_core.calls import Call, strangers, unseen
from kernelscope.probes.cuda_core.changes import changed_node, conditional_of, refusal
from kernelscope.probes.cuda_core.driver import SUCCESS, UPDATE_FAILURE, WRONG_THREAD, Driver
from kernelscope.probes.cuda_core.earlier import EarlierCaptures
from kernelscope.probes.cuda_core.event_log import EventLog
from kernelscope.probes.cuda_core.holding import Held, Holder
from kernelscope.probes.cuda_core.lives import Definition, Event, Executable, Row
from kernelscope.probes.cuda_core.walk import Conditionals, Walker
from kernelscope.probes.cupti.interruptions import raise_again
from kernelscope.probes.driver_calls import BEFORE, CallData, Source
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

#: Streams that stand for another one in each thread.
_PER_THREAD = 2
#: Functions that are watched while something else goes on: a capture, or the making of a conditional node.
WAIT = ("cuStreamWaitEvent", "cuStreamWaitEvent_ptsz")
ADD = ("cuGraphAddNode", "cuGraphAddNode_v2")


class GraphWatch:
    """Writes down what happens to graphs, as a `kernelscope.probes.driver_calls.Listener`.

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
        self._walker = Walker(driver, self._conditionals)
        self._holder = Holder(driver, self._walker)
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
        if call.result == SUCCESS and not self._holder.is_own_slot(call.word(0)):
            self._definitions[call.pointed(0)] = Definition(self._log.add("define", call))

    def _destroying(self, call: Call) -> None:
        graph = call.word(0)
        if self._holder.is_own_copy(graph):
            return
        definition = self._definitions.get(graph)
        if definition is not None and definition.held is None and not self._is_captured_into(graph):
            definition.held = self._hold(graph)
            self._share(definition)
        self._holder.going(graph)

    def _destroyed(self, call: Call) -> None:
        graph = call.word(0)
        if call.result == SUCCESS and not self._holder.is_own_copy(graph):
            definition = self._definitions.pop(graph, None)
            self._forget_conditionals(graph, definition.held if definition is not None else None)

    def _forget_conditionals(self, graph: int, held: Held | None) -> None:
        """Forget what is inside of a definition that is gone: its handles may soon be something else."""
        for node in self._conditional_nodes.pop(graph, ()):
            for body in self._conditionals.pop(node, (0, ()))[1]:
                self._forget_conditionals(body, held)
                for captured in self._bodies.pop(body, ()):
                    captured.held = held

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
        held = self._hold(graph, *((graph, handle) if handle else ()))
        definition = self._definitions.get(graph)
        number = self._source.exec_id(handle) if handle and self._source is not None else None
        event = self._log.add("instantiate", call, held=held, source=definition.made if definition else None)
        if handle:
            event.executable = self._executables[handle] = Executable(event, number, held.handles if held else [])
            self._numbered[number] = event.executable
        if definition is not None and definition.held is None:
            definition.held = held
            self._share(definition)

    def _updated(self, call: Call) -> None:
        graph, refused = call.word(1), call.result == UPDATE_FAILURE
        executable = self._executable(call.word(0))
        # What is refused is read at once, so that it can be said where.
        owners = () if refused else (graph, call.word(0))
        held = self._hold(graph, *owners) if refused or call.result == SUCCESS else None
        definition = self._definitions.get(graph)
        more: Row = {}
        if refused:
            more = {"outcome": "refused", "error": refusal(call, held)}
        self._log.add("update", call, held=held, source=definition.made if definition else None, executable=executable,
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
                event.node = changed_node(self._walker, call.api, call.word(2))

    def _uploaded(self, call: Call) -> None:
        self._log.add("upload", call, executable=self._executable(call.word(0)), stream=call.word(1))

    def _closing(self, call: Call) -> None:
        handle = call.word(0)
        if handle not in self._executables and self._source is not None:
            self._going[handle] = self._source.exec_id(handle)  # while the driver can still say which one it is
        self._holder.going(handle)

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
        self._holder.read_all()  # afterwards its kernels have no names any more

    # ---- at stop ----

    def settle(self) -> None:
        """Read every graph that was copied, and those that live and were never instantiated."""
        self._find_earlier()
        self._holder.read_all()
        for graph, definition in list(self._definitions.items()):
            if definition.held is None and self._is_quiet(graph, definition):
                held = self._hold(graph)
                for event in definition.events:
                    event.held = held
        for event in self.events:
            for body in event.held.walked.bodies if event.held is not None and event.held.walked is not None else ():
                for captured in self._bodies.pop(body, ()):
                    captured.held = event.held

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

    def _hold(self, graph: int, *owners: int) -> Held | None:
        return self._holder.hold(graph, owners, self._number)

    def _number(self, handle: int) -> int | None:
        return self._source.node_number(handle) if self._source is not None else None

    def _share(self, definition: Definition) -> None:
        for event in definition.events:
            event.held = definition.held

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
