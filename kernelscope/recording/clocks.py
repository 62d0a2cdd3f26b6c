"""One clock for many processes: from readings of two clocks, one within two of the other, to offset, drift and bound.

A ping is three times: the sender's, the other side's, the sender's again. The other side read its clock between the
sender's two readings, so that the offset (what is added to the other's times to have the sender's) is known to within
half of the round trip, however unlike the two ways were. Of several pings the fastest counts. One at the beginning and
one at the end of a recording give the drift: between them the offset is a line, and no further off than the worse of
the two ends, as long as both clocks kept their pace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from kernelscope.clock import Clock, now
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import table_of_rows
from kernelscope.recording.time import instants, is_known, otherwise
from kernelscope.schema import INSTANTS, MAX_TIME_NS, TABLES
from kernelscope.units import duration

#: The sender's time, the other side's, the sender's again, in nanoseconds.
Ping = tuple[int, int, int]

#: How fast two clocks may move apart where that was not measured: Linux slews a clock by at most 500 ppm.
MOST_DRIFT = 500e-6
# Faster than this no clock is: it was set.
_NO_DRIFT = 0.01
#: More pings than this say nothing more, and a file that has them was not written by KernelScope.
MOST_PINGS = 1000


@dataclass(frozen=True)
class ClockFit:
    """How another clock's times become the sender's.

    Attributes
    ----------
    at_ns : int
        The other clock's time at which the offset is `offset_ns`.
    offset_ns : int
        What is added to a time of the other clock then.
    drift : float
        By how much more for each nanosecond later.
    bound_ns : int
        How far a moved time can be off at most, within the span that was asked for.
    """

    at_ns: int
    offset_ns: int
    drift: float
    bound_ns: int

    def moved(self, times: np.ndarray) -> np.ndarray:
        """Return times of the other clock, int64 nanoseconds, on the sender's."""
        return times + (self.offset_ns + np.rint((times - self.at_ns) * self.drift).astype(np.int64))


def ping(call: Callable[[], int], *, clock: Clock = now, tries: int = 16) -> list[Ping]:
    """Return readings of another process's clock between two of this one's.

    Parameters
    ----------
    call : callable
        Asks the other side for its clock, in nanoseconds, and returns the answer: over a pipe, a socket, a comm.
    clock : callable
        This side's clock.
    tries : int
        How often; the fastest counts, so that a few suffice where nothing disturbs.
    """
    return [(clock(), call(), clock()) for _ in range(tries)]


def fit(begin: Sequence[Ping], end: Sequence[Ping] = (), span: tuple[int, int] | None = None) -> ClockFit:
    """Return how the other clock's times become the sender's.

    Parameters
    ----------
    begin, end : sequence of (int, int, int)
        Pings at the beginning and at the end. Without those of the end the drift is unknown, and the bound has the
        fastest that there can be (`MOST_DRIFT`).
    span : (int, int), optional
        The first and the last time of the other clock that will be moved: outside of the pings the bound grows.

    Raises
    ------
    ValueError
        There is no ping, one was answered before it was sent, or the clocks moved apart faster than clocks do: one of
        them was set meanwhile.
    """
    first_at, first, first_half = _best([*begin] or [*end])
    last_at, last, last_half = _best([*end] or [*begin])
    low, high = span or (first_at, last_at)
    if last_at <= first_at:
        away = max(first_at - low, high - first_at, 0)
        return ClockFit(first_at, first, 0.0, first_half + round(away * MOST_DRIFT))
    length = last_at - first_at
    if abs(last - first) - first_half - last_half > length * _NO_DRIFT:
        raise ValueError(f"the clocks moved apart by {duration(abs(last - first))} in {duration(length)}: one was set")
    away = max(first_at - low, high - last_at, 0)
    # Both ends can be off, each the other way: so much is unknown of the slope.
    bound = max(first_half, last_half) + -(-away * (first_half + last_half) // length)
    return ClockFit(first_at, first, (last - first) / length, bound + 1)


def _best(pings: Sequence[Ping]) -> tuple[int, int, int]:
    """The other clock's time of the fastest ping, the offset, and half of its round trip."""
    if not pings:
        raise ValueError("no ping: nothing is known of the other clock")
    sent, other, received = min(pings, key=lambda each: each[2] - each[0])
    if received < sent:
        raise ValueError(f"a ping was answered at {received} ns and sent at {sent} ns, later")
    return other, (sent + received) // 2 - other, (received - sent + 1) // 2 + 1


def pings_of(recording: Recording) -> tuple[list[Ping], list[Ping], str | None] | None:
    """Return the pings that a recording's metadata have, at both ends, and the boot of the sender; None for none.

    They stand as ``pings``: ``{"begin": [[sent, own, received], ...], "end": [...], "boot": ...}``. What does not look
    like that is not used.
    """
    held: Any = recording.metadata.get("pings")
    if not isinstance(held, dict):
        return None
    found = cast("dict[str, Any]", held)
    begin, end = (_checked(found.get(name)) for name in ("begin", "end"))
    boot = found.get("boot")
    return (begin, end, boot if isinstance(boot, str) else None) if begin or end else None


def _checked(values: Any) -> list[Ping]:
    if not isinstance(values, list) or len(cast("list[Any]", values)) > MOST_PINGS:
        return []
    kept: list[Ping] = []
    for each in cast("list[Any]", values):
        if isinstance(each, list | tuple):
            times = cast("Sequence[Any]", each)
            if len(times) == 3 and all(type(time) is int and abs(time) <= MAX_TIME_NS // 4 for time in times):
                sent, own, received = times
                if received >= sent:
                    kept.append((sent, own, received))
    return kept


def span_of(recording: Recording) -> tuple[int, int] | None:
    """Return the first and the last time that was recorded; None where nothing was."""
    first = [time for name in ("cells", "launches") for time in recording.column(name, "start_ns")[:1].tolist()]
    last = [row["end_ns"] for row in recording.rows("processes") if row["end_ns"] is not None]
    return (min(first + last), max(first + last)) if first + last else None


def moved(recording: Recording, found: ClockFit, *, boot: str | None = None, message: str | None = None,
          is_bounded: bool = True) -> Recording:
    """Return a recording with its times on another clock, and what was done said in ``processes``.

    Parameters
    ----------
    recording : Recording
        It is not changed.
    found : ClockFit
        How its times are moved.
    boot : str, optional
        Of the machine whose clock they are on afterwards; what follows knows by it that it is one clock.
    message : str, optional
        What to say of it.
    is_bounded : bool
        Whether the bound is known.
    """
    tables: dict[str, pa.Table] = {}
    for name in TABLES:
        table = recording.arrow(name)
        for index, column in enumerate(TABLES[name].names):
            if column in INSTANTS and table.num_rows:
                times = instants(table.column(index))
                values = found.moved(otherwise(times, found.at_ns))
                field = table.schema.field(index)
                table = table.set_column(index, field, pa.array(values, pa.int64(), mask=~is_known(times)))
        tables[name] = table
    rows = tables["processes"].to_pylist()
    for row in rows:
        row["clock_offset_ns"] = found.offset_ns + (row["clock_offset_ns"] or 0)
        row["clock_bound_ns"] = found.bound_ns + (row["clock_bound_ns"] or 0) if is_bounded else None
        row["clock_drift_ppb"] = round(found.drift * 1e9)
        row["message"] = "; ".join(each for each in (row["message"], message) if each) or None
    tables["processes"] = table_of_rows("processes", rows)
    metadata = dict(recording.metadata)
    metadata.pop("pings", None)
    clock: Any = metadata.get("clock")
    if isinstance(clock, dict) and type(host := cast("dict[str, Any]", clock).get("host_ns")) is int:
        metadata["clock"] = {**cast("dict[str, Any]", clock), "boot": boot,
                             "host_ns": int(found.moved(np.array([host], np.int64))[0])}
    return Recording(tables, metadata)


def on_one_clock(recording: Recording, first: Recording) -> Recording:
    """Return a recording with its times on the clock of `first`, by its pings, its boot, or the wall clock.

    Where pings were kept (see `pings_of`), they say how far it can be off; recordings of one boot share their clock.
    Otherwise the wall clocks say it, which is as good as these are set, and is said. What says nothing stays.

    Parameters
    ----------
    recording, first : Recording
        They are not changed; `first` is on the clock that is wanted.
    """
    recording = by_pings(recording)
    origin, wanted = _origin_ns(recording), _origin_ns(first)
    boot = _clock(recording).get("boot")
    is_one = boot is not None and boot == _clock(first).get("boot")
    if origin is None or wanted is None or not _SAME_CLOCK_NS < abs(origin - wanted) < _FURTHEST_NS:
        return recording
    if is_one:
        if recording.rows("processes")[:1] and recording.rows("processes")[0]["clock_bound_ns"] is None:
            return _noted(recording, f"its wall clock is {duration(abs(origin - wanted))} from that of other processes "
                                     "of its machine: it was set meanwhile, or the machine's clocks differ")
        return recording
    return moved(recording, ClockFit(0, origin - wanted, 0.0, 0), boot=_clock(first).get("boot"), is_bounded=False,
                 message="its times were placed by the wall clocks, which can be apart")


def by_pings(recording: Recording) -> Recording:
    """Return a recording with its times on the clock that pinged it; itself where none did."""
    found, span = pings_of(recording), span_of(recording)
    if found is None:
        return recording
    begin, end, boot = found
    try:
        return moved(recording, fit(begin, end, span), boot=boot)
    except ValueError as error:
        return _noted(recording, f"its clock is not known: {error}")


def _noted(recording: Recording, message: str) -> Recording:
    rows = [{**row, "message": "; ".join(each for each in (row["message"], message) if each)}
            for row in recording.rows("processes")]
    tables = {name: recording.arrow(name) for name in TABLES} | {"processes": table_of_rows("processes", rows)}
    return Recording(tables, recording.metadata)


# The wall clock is adjusted now and then; recordings of one boot differ by that much and need no moving.
_SAME_CLOCK_NS = 2_000_000_000
# Clocks that began longer ago from another are none, and what is moved by less stays in the range of times.
_FURTHEST_NS = MAX_TIME_NS - 2**58


def _origin_ns(recording: Recording) -> int | None:
    """The wall time at which the recording's host clock was 0; None where it does not say."""
    wall, host = (_clock(recording).get(name) for name in ("wall_ns", "host_ns"))
    return wall - host if isinstance(wall, int) and isinstance(host, int) else None


def _clock(recording: Recording) -> dict[str, Any]:
    clock = recording.metadata.get("clock")
    return cast("dict[str, Any]", clock) if isinstance(clock, dict) else {}


def before_cause(cause_ns: int, effect_ns: int, bound_ns: int | None) -> str | None:
    """Return what to say where an effect stands before its cause: whether the clocks' bound explains it; else None."""
    early = cause_ns - effect_ns
    if early <= 0:
        return None
    if bound_ns is None:
        return f"begins {duration(early)} before what caused it: how far the clocks are apart is not known"
    if early <= bound_ns:
        return f"begins {duration(early)} before what caused it, which the clocks' bound of {duration(bound_ns)} allows"
    return (f"begins {duration(early)} before what caused it, more than the clocks' bound of {duration(bound_ns)}: one "
            "of the clocks was set, or did not keep its pace")
