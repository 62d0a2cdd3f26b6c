"""The keys of a recording's metadata."""

from __future__ import annotations

from typing import NamedTuple

from kernelscope.schema.columns import MAX_COUNT, MAX_HANDLE, MAX_TIME_NS
from kernelscope.schema.tables import PROCESSES


class Metadatum(NamedTuple):
    """One key of a recording's metadata.

    Attributes
    ----------
    key : str
        Where it is: ``clock.host_ns`` is in the mapping ``clock``; ``*`` stands for each key of a mapping.
    kind : str
        ``integer``, ``number``, ``boolean``, ``text``, ``list of texts``, ``list`` or ``mapping``.
    meaning : str
        One sentence for the reference.
    nullable : bool
        Whether it may be null; every key may be missing.
    low, high : int or None
        The least and the most that its number may be. A file with another one is refused.
    """

    key: str
    kind: str
    meaning: str
    nullable: bool = False
    low: int | None = None
    high: int | None = None


def _instant(key: str, meaning: str) -> Metadatum:
    """Return a key of an instant, in nanoseconds."""
    return Metadatum(key, "integer", meaning, low=-MAX_TIME_NS, high=MAX_TIME_NS)


def _number(key: str, meaning: str, high: int, *, low: int = 0, nullable: bool = False,
            kind: str = "integer") -> Metadatum:
    """Return a key of a count, or of another number."""
    return Metadatum(key, kind, meaning, nullable, low, high)


#: The keys of the metadata that KernelScope writes and reads, in the order of the reference. Other keys may hold
#: whatever JSON can hold.
METADATA = (
    Metadatum("name", "text", "The name of the recording.", nullable=True),
    Metadatum("created", "text", "When it was made: ISO, in UTC.", nullable=True),
    _number("schema_version", "The schema's version when it was made.", MAX_COUNT),
    Metadatum("detail", "text", "How much is recorded of a launch: launch or phases."),
    Metadatum("dry_run", "boolean", "Whether there was no GPU behind it."),
    Metadatum("simulator", "boolean", "Whether numba's simulator ran kernels."),
    Metadatum("code", "boolean", "Whether the kernels' code was recorded."),
    Metadatum("redacted", "boolean", "Whether source, code and names were taken out."),
    _number("merged", "How many recordings it was merged from.", MAX_COUNT),
    Metadatum("python", "text", "Python's version.", nullable=True),
    Metadatum("platform", "text", "The operating system, its version, the processor's architecture and the C library.",
              nullable=True),
    _number("cpus", "Processors of the machine.", MAX_COUNT, nullable=True),
    Metadatum("driver_version", "text", "The CUDA version of the driver.", nullable=True),
    Metadatum("packages", "mapping", "Versions of packages, by name."),
    Metadatum("packages.*", "text", "A version.", nullable=True),
    Metadatum("probes", "list of texts", "The probes that were installed."),
    Metadatum("clock", "mapping", "The host clock."),
    _instant("clock.host_ns", "The host clock at some instant, in ns."),
    _instant("clock.wall_ns", "The wall clock at that instant, in ns since 1970."),
    _number("clock.error_ns", "How far these two can be apart, in ns.", MAX_TIME_NS, nullable=True, kind="number"),
    Metadatum("clock.boot", "text", "The boot of the machine, or the file that times are of: one clock.",
              nullable=True),
    Metadatum("gpu", "mapping", "Where the GPU's times are from; null without any.", nullable=True),
    Metadatum("gpu.source", "text", "The probe: cupti or events."),
    _number("gpu.clock_error_ns", "How far they can be off on the host clock, in ns.", MAX_TIME_NS, nullable=True,
            kind="number"),
    Metadatum("own_cost", "mapping", "How the cost of recording is known, by probe."),
    Metadatum("own_cost.*", "mapping", "How that of a probe is known."),
    Metadatum("own_cost.*.kind", "text", "calibrated, partly calibrated or estimated."),
    Metadatum("own_cost.*.measured", "text", "When it was measured: ISO.", nullable=True),
    _number("own_cost.*.low_ns", "The lower end of its interval, in ns a launch.", MAX_TIME_NS, low=-MAX_TIME_NS,
            nullable=True, kind="number"),
    _number("own_cost.*.high_ns", "The upper end.", MAX_TIME_NS, low=-MAX_TIME_NS, nullable=True, kind="number"),
    Metadatum("own_cost.*.is_seen", "boolean", "Whether a difference was seen."),
    Metadatum("recorder", "mapping", "How launches were kept."),
    Metadatum("recorder.mode", "text", "grow, ring or stop.", nullable=True),
    _number("recorder.capacity", "How many are kept at most; null for all.", MAX_HANDLE, nullable=True),
    _number("recorder.kept", "How many there are.", MAX_HANDLE, nullable=True),
    _number("recorder.lost", "How many were not kept.", MAX_HANDLE, nullable=True),
    Metadatum("process", "mapping", "What is known of the process, by columns of the table `processes`."),
    *(Metadatum(f"process.{column.name}", "text" if column.low is None else
                "number" if column.dtype == "float64" else "integer", column.meaning, True, column.low, column.high)
      for column in PROCESSES.columns),
    Metadatum("pings", "mapping", "What its clock was found by: instants of the clock that pinged it and of its own."),
    Metadatum("pings.begin", "list", "Pings when recording began: sent, own, received, in ns."),
    Metadatum("pings.end", "list", "Pings when it ended."),
    Metadatum("pings.boot", "text", "The boot of the machine that pinged.", nullable=True),
    Metadatum("imported", "mapping", "Of a trace of another tool, what it is."),
    Metadatum("imported.from", "text", "The tool."),
    Metadatum("imported.version", "text", "Its version.", nullable=True),
    Metadatum("imported.format", "text", "The trace's format."),
    Metadatum("imported.skipped", "mapping", "How many events were left out, by kind."),
    _number("imported.skipped.*", "How many.", MAX_HANDLE),
    Metadatum("recovered", "mapping", "Of a recovered journal, what was not whole."),
)
