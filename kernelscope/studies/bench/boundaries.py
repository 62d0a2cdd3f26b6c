"""The boundaries of a launch's parts: which a version has, which parts lie between them, and which cannot be seen.

Standard library only; Python 3.9 and later.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import inspect
import sys
from typing import Any

from .launch_path import (
    CONFIGURATION,
    Path,
    Source,
    UnseenError,
    loops_that_call,
    split_loop,
    statements,
    statements_that_call,
)

ARGUMENTS = "arguments"
_RESULT = "_kernelscope_result"


class Boundaries:
    """The boundaries that a version of a framework has.

    Parameters
    ----------
    path : Path
        Where a launch of the framework passes.

    Attributes
    ----------
    functions : dict of str to Source
        The framework's functions that have boundaries: ``entered`` and ``launched``.
    missing : dict of str to str
        Boundaries that this version does not have, and why.
    arguments : list of str
        What the launch's arguments are; `find` sets it.
    places : list of str
        The boundaries, in the order in which a launch passes them; `find` sets it.
    parts : list of dict
        What lies between them, and what cannot be seen, with the reason; `find` sets it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.missing: dict[str, str] = {}
        self.arguments: list[str] = []
        self.places: list[str] = []
        self.parts: list[dict[str, Any]] = []
        self.functions = self._find_functions()

    def find(self, arguments: list[str]) -> None:
        """Find the boundaries and parts of a launch with such arguments."""
        self.arguments = arguments
        self.places = self._find_places()
        self.parts = self._make_parts()

    def insert(self, tree: Any, source: Source, place: str, marks: list[Any]) -> None:
        """Put stamps at a boundary of a function."""
        if place in ("entered", "launched"):
            tree.body[source.first:source.first] = marks
        elif place in ("preparing", "prepared"):
            (body, at), = loops_that_call(tree, self.path.prepares)
            if place == "prepared":
                body[at + 1:at + 1] = marks
            else:
                split_loop(body, at, marks)
        else:
            for body, at in reversed(statements_that_call(tree, self.path.submits)):
                stamps = copy.deepcopy(marks)
                if place == "submit":
                    body[at:at] = stamps
                elif isinstance(body[at], ast.Return):
                    kept = ast.Assign(targets=[ast.Name(_RESULT, ast.Store())], value=body[at].value)
                    body[at:at + 1] = [kept, *stamps, *statements("return " + _RESULT)]
                else:
                    body[at + 1:at + 1] = stamps

    def split_turns(self, stamp: str) -> tuple[Source, Any]:
        """Return the function that launches, and its tree with a stamp before, in each turn of, and behind its loop."""
        source = self.functions["launched"]
        tree = source.tree()
        (body, at), = loops_that_call(tree, self.path.prepares)
        body[at].body[0:0] = statements(stamp)
        body[at + 1:at + 1] = statements(stamp)
        split_loop(body, at, statements(stamp))
        return source, tree

    def lose(self, key: str, reason: str) -> None:
        """Say why a part cannot be timed in this case: it is passed more than once a launch, or not in each."""
        for part in self.parts:
            if part["key"] == key or (key == ARGUMENTS and part["begin"] == "preparing"):
                part["reason"] = reason

    def lose_all(self, reason: str) -> None:
        """Say why no part can be timed in this case."""
        for part in self.parts:
            if part["begin"] in self.places:
                part["reason"] = reason

    def is_once_a_launch(self, key: str) -> bool:
        """Whether a part begins where a launch passes once, whatever its dispatcher."""
        begins = {part["key"]: part["begin"] for part in self.parts}
        return begins.get(key) in ("launched", "prepared", "submit", "submitted")

    def _find_functions(self) -> dict[str, Source]:
        """Return the functions that have boundaries, by name; `missing` says why one is not there."""
        module = sys.modules.get(self.path.module)
        found: dict[str, Source] = {}
        for name, (owner, method) in (("entered", self.path.entered), ("launched", self.path.launched)):
            function = vars(getattr(module, owner, object)).get(method)
            if function is None:
                self.missing[name] = f"this version has no {owner}.{method}"
                continue
            with contextlib.suppress(UnseenError):
                found[name] = Source(inspect.unwrap(function))
            if name not in found:
                self.missing[name] = f"{owner}.{method} is no plain Python function with a source"
        return found

    def _find_places(self) -> list[str]:
        """Return the names of the boundaries that this version has, in the order in which a launch passes them."""
        names = ["statement"]
        if "entered" in self.functions:
            names.append("entered")
        source = self.functions.get("launched")
        if source is not None:
            names.append("launched")
            tree = source.tree()
            if self.path.prepares is not None:
                if len(loops_that_call(tree, self.path.prepares)) == 1:
                    names += ["preparing", "prepared"] if self.arguments else ["prepared"]
                else:
                    self.missing["prepared"] = f"{source.name} has not one loop that calls {self.path.prepares}"
            if statements_that_call(tree, self.path.submits):
                names += ["submit", "submitted"]
            else:
                self.missing["submit"] = "{} calls none of {}".format(source.name, ", ".join(self.path.submits))
        return [*names, "end"]

    def _make_parts(self) -> list[dict[str, Any]]:
        """Return the parts, in order, and those that cannot be seen, each with the reason."""
        known = {("statement", "entered"): "configure", ("entered", "launched"): "dispatch",
                 ("launched", "preparing"): "set-up", ("launched", "prepared"): "set-up",
                 ("submit", "submitted"): "submit", ("submitted", "end"): "finish"}
        unseen = self._unseen()
        if self.path.prepares is None:
            known["launched", "submit"] = "set-up"
        elif CONFIGURATION not in unseen:
            known["prepared", "submit"] = CONFIGURATION
        parts: list[dict[str, Any]] = []
        others = 0
        for begin, end in zip(self.places, self.places[1:]):
            if begin == "preparing":
                parts += [_part(f"argument {index}", begin, end, note)
                          for index, note in enumerate(self.arguments)]
            elif (begin, end) in known:
                parts.append(_part(known[begin, end], begin, end))
            else:
                others += 1
                parts.append(_part(f"other {others}" if others > 1 else "other", begin, end,
                                   f"from {begin} to {end}"))
        had = {part["key"] for part in parts} | ({ARGUMENTS} if self.arguments == [] else set())
        had |= {ARGUMENTS} if "preparing" in self.places else set()
        for key, reason in unseen.items():
            if key not in had:
                # What the framework does inside of its driver call lies between the call's boundaries.
                inside = ("submit", "submitted") if key in self.path.unseen else ("", "")
                parts.append(_part(key, *inside, reason=reason))
        return parts

    def _unseen(self) -> dict[str, str]:
        """Return the parts that this version does not show, each with the reason."""
        unseen = dict(self.path.unseen)
        for name, parts in (("entered", ("configure", "dispatch")),
                            ("launched", ("dispatch", "set-up", "arguments", CONFIGURATION, "submit", "finish")),
                            ("prepared", ("set-up", "arguments", CONFIGURATION)),
                            ("submit", (CONFIGURATION, "submit", "finish"))):
            for part in parts:
                if name in self.missing:
                    unseen.setdefault(part, self.missing[name])
        source = self.functions.get("launched")
        if self.path.prepares is not None and source is not None and "LaunchConfig" not in source.names:
            unseen.setdefault(CONFIGURATION, f"{source.name} makes none")
        return unseen


def _part(key: str, begin: str = "", end: str = "", note: str = "", reason: str | None = None) -> dict[str, Any]:
    return {"key": key, "begin": begin, "end": end, "note": note, "reason": reason}
