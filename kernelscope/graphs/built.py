"""A graph that can be launched: nodes put into cuda.core's definition, instantiated, and updated in place."""

from __future__ import annotations

import importlib.metadata
import threading
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from kernelscope.analysis.units import counted
from kernelscope.errors import GraphError
from kernelscope.graphs.keeping import Kept
from kernelscope.graphs.libraries import core, driver, numba_module, require_cuda
from kernelscope.graphs.nodes import Condition, ConditionalNode, Node, as_nodes, dependencies, in_order
from kernelscope.graphs.placing import Placed, change, place, reason
from kernelscope.graphs.streams import core_stream
from kernelscope.graphs.work import Copy, Work, work_of

_CLOSED = "the graph is closed: build it again"


class BuiltGraph:
    """An executable CUDA graph of nodes; `build` makes it. As a context manager it closes itself.

    It keeps alive whatever its nodes use: device arrays, host arrays, kernels, and the objects of host functions. Where
    it is closed or dropped while launches of it are under way, all that stays until they have ended, so that
    ``node.build().launch()`` is safe.

    Attributes
    ----------
    nodes : tuple of Node
        All of them, those of bodies included; each after what it depends on.
    definition : cuda.core.graph.GraphDefinition
        The graph as cuda.core has it.
    graph : cuda.core.graph.Graph
        The executable graph; what cuda.core can do with one, such as `upload`, goes with it.
    """

    def __init__(self, definition: Any, graph: Any, placed: list[Placed], context: int, kept: Kept) -> None:
        self.definition = definition
        self.graph = graph
        self.nodes = tuple(each.node for each in placed)
        self._placed = {each.node: each for each in placed}
        self._context = context
        self._default = core_stream(None)
        self._threads = {threading.get_ident()}
        self._closed = False
        self._kept = kept
        # Where it was never closed; at the end of the process nothing needs to be.
        self._close = weakref.finalize(self, kept.close, graph)
        self._close.atexit = False

    def launch(self, stream: Any = None) -> None:
        """Run the graph once, behind what is in the stream already. It returns before the work is done.

        Parameters
        ----------
        stream : stream or int, optional
            A stream of numba, of cuda.core, of anything with ``__cuda_stream__``, or a handle; the default stream
            without one.

        Raises
        ------
        GraphError
            The graph is closed, or the stream is none.
        """
        if self._closed:
            raise GraphError(_CLOSED)
        if threading.get_ident() not in self._threads:
            _current_context()  # CUDA has one for each thread
            self._threads.add(threading.get_ident())
        self.graph.launch(self._default if stream is None else core_stream(stream))

    def update(self, *nodes: Node) -> int:
        """Take over what was changed in the nodes since they were built: arguments, grids, arrays, functions.

        It costs some tens of microseconds for each node that it looks at, where building the graph again makes and
        instantiates all of them.
        Launches that were made before keep what they had; an array of theirs that another one replaces must live until
        they have ended.

        Parameters
        ----------
        *nodes : Node
            Those to look at; without one, all.

        Returns
        -------
        int
            How many nodes had changed.

        Raises
        ------
        GraphError
            The graph is closed; dependencies, conditions or bodies were changed, or the kind of a copy, which needs
            another graph; or as `build`. The graph is then as it was.
        """
        if self._closed:
            raise GraphError(_CLOSED)
        if _current_context() != self._context:
            raise GraphError("the graph was built in another CUDA context: update it where it was built")
        unknown = [node.label for node in nodes if node not in self._placed]
        if unknown:
            raise GraphError(f"{unknown[0]} is no node of this graph: build it again")
        looked_at = [self._placed[node] for node in nodes] if nodes else list(self._placed.values())
        changes = [(each, work) for each in looked_at if (work := self._work(each)).key != each.work.key]
        done: list[Placed] = []
        try:
            for placed, work in changes:
                done.append(placed)
                change(self.graph, placed, work)
            self._update_bodies(done)
        except Exception as error:
            for placed in reversed(done):
                change(self.graph, placed, placed.work)
            label = done[-1].node.label if done else "a node"
            raise GraphError(f"the update was refused at {label}, and the graph is as it was: {reason(error)}; build "
                             "it again where the change is wanted") from error
        for placed, work in changes:
            placed.work = work
        return len(changes)

    def close(self) -> None:
        """Destroy the graph. A second time changes nothing.

        Launches that are under way go on. What the graph kept alive is let go when they have ended, at the next use of
        any graph.
        """
        self._closed = True
        self._placed.clear()
        self._close()

    destroy = close

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def __enter__(self) -> BuiltGraph:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<BuiltGraph of {counted(len(self.nodes), 'node')}{', closed' if self._closed else ''}>"

    def _work(self, placed: Placed) -> Work:
        """What a node is to do now, as far as an update can bring it there."""
        node = placed.node
        if tuple(dict.fromkeys(dependencies(node))) != placed.deps:
            raise GraphError(f"{node.label}: its dependencies were changed, which an update cannot do; build the graph "
                             "again")
        if isinstance(node, ConditionalNode):
            inside = [each for body in node.bodies for each in in_order(body)]
            if any(each not in self._placed for each in inside) or node.condition not in placed.work.keep:
                raise GraphError(f"{node.label}: its condition or its body was changed, which an update cannot do; "
                                 "build the graph again")
        work = work_of(node, lambda condition: _handle(node, condition, placed.handles), placed.work)
        if isinstance(work, Copy) and isinstance(placed.work, Copy) and work.kinds != placed.work.kinds:
            raise GraphError(f"{node.label}: it copied another way before (between host and device, or on the device), "
                             "which an update cannot change; build the graph again")
        return work

    def _update_bodies(self, changed: list[Placed]) -> None:
        """Bring nodes inside bodies into the executable graph; only an update of the whole graph reaches them."""
        if any(placed.inside for placed in changed):
            self.graph.update(self.definition)


def build(nodes: Node | Iterable[Node]) -> BuiltGraph:
    """Build a graph of nodes and everything that they depend on, on the current device.

    Parameters
    ----------
    nodes : Node or iterable of Node
        The last ones of the graph, at least.

    Returns
    -------
    BuiltGraph
        The graph, instantiated.

    Raises
    ------
    GraphError
        There is no node; nodes depend on each other in a cycle, or on one inside a body; a kernel is cooperative, was
        compiled for debugging or gets too many arguments, too few or host arrays; an array is another context's; a
        condition belongs to no node, or to two. What numba raises when it compiles a kernel passes.
    """
    ends = as_nodes(nodes)
    for node in ends:
        if not isinstance(node, Node):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphError(f"{node!r} is no node")
    if not ends:
        raise GraphError("a graph needs a node")
    require_cuda()
    context = _current_context()
    definition = _new_definition()
    placed = _fill(definition, ends, {}, {}, outer=None)
    kept = Kept(definition, placed)
    try:
        graph = definition.instantiate()
    except Exception as error:
        kept.close()
        raise GraphError(f"CUDA refuses the graph: {reason(error)}") from error
    return BuiltGraph(definition, graph, placed, context, kept)


def _fill(definition: Any, ends: list[Node], around: dict[Condition, int], seen: dict[Node | Condition, str],
          outer: ConditionalNode | None) -> list[Placed]:
    """Put nodes into a definition, and those of bodies into their own; return all.

    `around` are the handles of the conditions of the nodes around it, `seen` is what was put somewhere and where.
    """
    ordered = in_order(ends)
    where = "the graph" if outer is None else f"a body of {outer.label}"
    for node in ordered:
        if node in seen:
            raise GraphError(f"{node.label} is in {where} and in {seen[node]}, and can be in one place only; nodes of "
                             "a body depend on nodes of the same body")
        seen[node] = where
    # All conditions first: a kernel before the conditional node sets it.
    conditions: dict[Condition, Any] = {}
    for node in ordered:
        if isinstance(node, ConditionalNode):
            if node.condition in seen:
                raise GraphError(f"{node.label}: its condition decides about another node already, and CUDA allows one")
            seen[node.condition] = where
            conditions[node.condition] = definition.create_condition(node.condition.default)
    handles = {**around, **{each: int(made.handle) for each, made in conditions.items()}}
    works = [(node, work_of(node, lambda condition, node=node: _handle(node, condition, handles))) for node in ordered]
    placed = place(definition, works, conditions, handles, inside=outer is not None)
    inner: list[Placed] = []
    for each in placed:
        if isinstance(each.node, ConditionalNode):
            for body, inside in zip(each.node.bodies, _branches(each.core), strict=True):
                if not body:
                    raise GraphError(f"{each.node.label}: its body has no node")
                inner += _fill(inside, body, handles, seen, each.node)
    return placed + inner


def _branches(core: Any) -> tuple[Any, ...]:
    """The bodies of cuda.core's conditional node; on older drivers `branches` is empty, and the names remain."""
    names = ("body",) if hasattr(core, "body") else ("then", "else_")
    return tuple(getattr(core, name) for name in names if hasattr(core, name))


def _handle(node: Node, condition: Condition, handles: dict[Condition, int]) -> int:
    if condition not in handles:
        raise GraphError(f"{node.label} gets a condition that decides about no node around it: an IfNode or WhileNode "
                         "with it must be in the same graph, or be the one in whose body the kernel is")
    return handles[condition]


def _current_context() -> int:
    """The handle of this thread's CUDA context, made current as numba does before a launch."""
    error, current = driver().cuCtxGetCurrent()
    if not error and int(current):
        return int(current)
    return int(numba_module("api").current_context().handle)


def _new_definition() -> Any:
    definition = getattr(getattr(core(), "graph", None), "GraphDefinition", None)
    if definition is None:
        version = importlib.metadata.version("cuda-core")
        raise GraphError(f"cuda-core {version} has no graph definitions; 1.1 and newer have")
    return definition()
