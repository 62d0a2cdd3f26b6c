"""Launches of kernels with one declared signature by arguments of other types, which numba-cuda does not check.

With ``@cuda.jit("void(float32[:])")``, and of what ``specialize()`` returns, numba-cuda takes the only specialization
for every launch. The kernel then reads an array of another dtype, layout or number of dimensions as if it were the
declared one, an integer that does not fit loses its upper bits, and a missing argument is whatever stands there.
Scalars are converted otherwise, which is all right, and what is no array where one is declared raises.

The hook of launches knows other kernels by their address. These it is not told: so it asks Python at the end of each of
their launches, after its end was noted, and no other launch pays for it. What it takes is measured, and a row of health
of its own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kernelscope.probes.numba_cuda.kernels import KernelRows

#: Returns the type of a value that is passed on as if it were of another one; None for what is right.
Check = Callable[[Any], str | None]
#: Several are noted of each specialization.
_MOST = 20
#: So many arrays' shapes are remembered.
_MOST_ARRAYS = 1024


class _Declared(NamedTuple):
    """A dispatcher, how many arguments its only signature has, and the checks of those that need one, by position."""

    dispatcher: Any
    arguments: int
    checks: list[tuple[int, Check]]


class DeclaredTypes:
    """Compares launches with the one signature that their kernel has.

    Parameters
    ----------
    rows : KernelRows
        Makes the rows of specializations.
    types : module
        ``numba.cuda.types``.
    """

    def __init__(self, rows: KernelRows, types: Any) -> None:
        self._rows = rows
        self._types = types
        self._lock = threading.Lock()
        #: By the dispatcher's address.
        self._declared: dict[int, _Declared] = {}
        #: By specialization and mismatch, the number of launches.
        self._found: dict[int, dict[tuple[int, str, str], int]] = {}

    def check(self, dispatcher: Any, arguments: Any) -> bool:
        """Note how a launch's arguments differ from the kernel's only signature; return whether it has only one.

        Parameters
        ----------
        dispatcher : CUDADispatcher
            What was launched.
        arguments : tuple
            Its arguments.
        """
        known = self._declared.get(id(dispatcher))
        if known is None:
            if not getattr(dispatcher, "_specialized", False):
                return False
            known = self._declared[id(dispatcher)] = self._declared_by(dispatcher)
        if not isinstance(arguments, tuple):
            return True
        if len(arguments) < known.arguments:  # further ones are left out
            self._note(dispatcher, -1, f"{known.arguments} arguments", str(len(arguments)))
        for position, check in known.checks:
            if position < len(arguments) and (passed := check(arguments[position])) is not None:
                kernel = next(iter(dispatcher.overloads.values()))
                self._note(dispatcher, position, str(kernel.argument_types[position]), passed)
        return True

    def _declared_by(self, dispatcher: Any) -> _Declared:
        if dispatcher.extensions:  # which may make any type of an argument
            return _Declared(dispatcher, 0, [])
        kinds = next(iter(dispatcher.overloads.values())).argument_types
        checks = [self._check_of(dispatcher, kind) for kind in kinds]
        return _Declared(dispatcher, len(checks), [
            (position, check) for position, check in enumerate(checks) if check is not None])

    def describe(self) -> None:
        """Write what was found into the specializations' ``attributes``."""
        with self._lock:
            for number, counts in self._found.items():
                row = self._rows.sink.specializations.rows[number]
                row["attributes"] = json.dumps({"unchecked": [
                    {"position": position, "declared": declared, "passed": passed, "launches": launches}
                    for (position, declared, passed), launches in counts.items()]})

    def _note(self, dispatcher: Any, position: int, declared: str, passed: str) -> None:
        number = self._rows.specialization(dispatcher, next(iter(dispatcher.overloads.values())))
        with self._lock:
            counts = self._found.setdefault(number, {})
            key = position, declared, passed
            if key in counts or len(counts) < _MOST:
                counts[key] = counts.get(key, 0) + 1

    def _check_of(self, dispatcher: Any, declared: Any) -> Check | None:
        """Return what says as what a value is passed on that is of another type, and None of those that are right.

        None for types to which numba-cuda converts, or raises.
        """
        types = self._types
        if isinstance(declared, types.Array):
            return self._array_check(dispatcher, declared)
        if isinstance(declared, types.Integer):
            least, greatest = declared.minval, declared.maxval
            return lambda value: "an integer that it does not hold" if (
                isinstance(value, int | np.integer) and not least <= value <= greatest) else None
        if isinstance(declared, types.BaseTuple):
            inner = [self._check_of(dispatcher, kind) for kind in declared]

            def check_elements(value: Any) -> str | None:
                passed = [check(element) for check, element in zip(inner, value, strict=False)
                          if check is not None] if isinstance(value, tuple) else []
                return next((text for text in passed if text is not None), None)

            return check_elements if any(inner) else None
        if isinstance(declared, types.Record):
            def check_record(value: Any) -> str | None:
                passed = dispatcher.typeof_pyval(value)
                return str(passed) if isinstance(passed, types.Record) and passed != declared else None

            return check_record
        return None

    def _array_check(self, dispatcher: Any, declared: Any) -> Check:
        known: dict[tuple[Any, ...], str | None] = {}

        def differs(value: Any) -> str | None:
            passed = dispatcher.typeof_pyval(value)
            if not isinstance(passed, self._types.Array):
                return None  # numba-cuda raises
            same = passed.dtype == declared.dtype and passed.ndim == declared.ndim and (
                passed.layout == declared.layout or declared.layout == "A" or (
                    passed.layout != "A" and passed.ndim < 2))
            return None if same else str(passed)

        def check(value: Any) -> str | None:
            try:
                key = type(value), value.dtype, value.shape, value.strides
                if key in known:
                    return known[key]
            except Exception:  # no array, or another library's, whose attributes may do anything
                return differs(value)
            if len(known) >= _MOST_ARRAYS:
                known.clear()
            found = known[key] = differs(value)
            return found

        return check
