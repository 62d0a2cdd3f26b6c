"""What the benchmarks of the recorder share: ways of recording, kernels, quiet moments, and estimates."""

from __future__ import annotations

import gc
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

import numpy as np

from kernelscope.recorder.recorder import Recorder
from kernelscope.studies.bench.timing import Quiet, time_reference_ns

#: Launches after each change of hooks, before any is timed: hooks of other profilers make the interpreter adapt its
#: instructions anew, and that takes 700 launches.
WARM_UP = 800
#: A moment is quiet where the reference loop takes at most so many times as long as at best, as in studies.
QUIET = 1.2

Row = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """One way of recording, or of not recording.

    Attributes
    ----------
    name : str
        What tables call it.
    detail : str or None
        As `Recorder` takes it; None records nothing.
    journal : str or None
        The folder of journals, if one is kept.
    gpu : str
        As `Recorder` takes it.
    """

    name: str
    detail: str | None = None
    journal: str | None = None
    gpu: str = "none"

    def start(self) -> Recorder | None:
        """Record from now on; None for a way that does not."""
        if self.detail is None:
            return None
        recorder = Recorder(self.name, detail=self.detail, gpu=self.gpu, journal=self.journal).start()
        recorder.begin_cell(self.name, execution_count=1, source="for _ in range(count): kernel[1, 32]()")
        return recorder


OFF = Way("off")
AGAIN = Way("off again")


@dataclass
class Part:
    """What one part of the benchmarks found.

    Attributes
    ----------
    rows : list of dict
        Of the table: ``figure``, ``at_most``, ``measured``, and numbers.
    missing : list of str
        What was not measured, and why.
    values : dict
        Further numbers, for the file.
    """

    #: Where each row is written as soon as it is there, with those before it.
    output: ClassVar[Path | None] = None

    rows: list[Row] = field(default_factory=list[Row])
    missing: list[str] = field(default_factory=list[str])
    values: Row = field(default_factory=Row)

    def add(self, figure: str, measured: str, at_most: str = "", **numbers: Any) -> None:
        """Add a row."""
        self.rows.append({"figure": figure, "at_most": at_most, "measured": measured, **numbers})
        if self.output is not None:
            partly = self.output.with_suffix(".partly")
            partly.write_text(json.dumps(asdict(self)))
            partly.replace(self.output)


def log_of(recorder: Recorder) -> Any:
    """The log that a recorder's session writes launches to."""
    session: Any = recorder._session
    return session.sink.log


def ways(details: Sequence[str] = ("launch", "phases")) -> list[Way]:
    """The ways of recording with each detail."""
    return [Way(detail, detail) for detail in details]


def journal_way(folder: str, what: str, missing: list[str]) -> Way | None:
    """Recording with a journal in a folder; None where there is none, which is added to `missing`."""
    way = Way("phases, journal", "phases", journal=folder)
    recorder = way.start()
    assert recorder is not None
    made = any(Path(folder).glob("*/slots"))
    recording = recorder.stop()
    if made:
        return way
    said = [text for text in recording.health.message.dropna() if "journal" in text]
    reason = said[0] if said else "the recorder made none, and does not say why"
    missing.append(f"{what}: {reason}")
    return None


def kernel_of(arguments: int) -> tuple[Any, tuple[Any, ...]]:
    """A configured kernel that does nothing with 0 to 4 arrays, compiled, and the device arrays for it."""
    from numba import cuda

    def noop0():
        pass

    def noop1(a):
        pass

    def noop2(a, b):
        pass

    def noop3(a, b, c):
        pass

    def noop4(a, b, c, d):
        pass

    kernel = cuda.jit((noop0, noop1, noop2, noop3, noop4)[arguments])[1, 32]
    given = tuple(cuda.device_array(1024, np.float32) for _ in range(arguments))
    launch(kernel, given, WARM_UP)
    cuda.synchronize()
    return kernel, given


def launch(kernel: Any, arguments: tuple[Any, ...], count: int) -> None:
    """Launch so many times."""
    for _ in range(count):
        kernel(*arguments)


def per_launch_ns(kernel: Any, arguments: tuple[Any, ...], count: int) -> float:
    """Nanoseconds a launch, of so many in a row."""
    clock = time.perf_counter_ns
    start = clock()
    for _ in range(count):
        kernel(*arguments)
    return (clock() - start) / count


class Moments:
    """Whether the processor's core is left alone, as a short loop beside each batch tells.

    Parameters
    ----------
    pinned : bool
        Whether this thread stays on one core and goes on to another where it is slow. Threads that it starts stay
        there too.
    """

    def __init__(self, pinned: bool) -> None:
        cores = sorted(os.sched_getaffinity(0)) if pinned else []
        self._all = os.sched_getaffinity(0)
        self._quiet = Quiet(cores)
        self.limit_ns = round(QUIET * self._quiet.best_ns())

    def __enter__(self) -> Moments:
        return self

    def __exit__(self, *_: object) -> None:
        os.sched_setaffinity(0, self._all)

    def seek(self) -> None:
        """Go to a quiet core, if there is one: at the beginning of a round, so that what is compared is on one."""
        self._quiet.seek(None, self.limit_ns)

    def is_quiet(self) -> bool:
        """Whether this moment is."""
        return time_reference_ns() <= self.limit_ns


def batch(kernel: Any, arguments: tuple[Any, ...], way: Way, launches: int, moments: Moments,
          tries: int = 3) -> tuple[float, bool, tuple[float, float]]:
    """Nanoseconds a launch while recording in some way, whether at a quiet moment, and of the first and the next ones.

    The launches before are recorded in no way, so that none of those that are compared finds what another has left.
    """
    from numba import cuda

    launch(kernel, arguments, WARM_UP)
    cuda.synchronize()
    recorder = way.start()
    taken, quiet, made = 0.0, False, WARM_UP
    try:
        gc.disable()
        first = per_launch_ns(kernel, arguments, 1), per_launch_ns(kernel, arguments, WARM_UP - 1)
        for _ in range(tries):
            cuda.synchronize()
            before = moments.is_quiet()
            taken = per_launch_ns(kernel, arguments, launches)
            quiet = before and moments.is_quiet()
            made += launches
            if quiet:
                break
    finally:
        gc.enable()
        if recorder is not None:
            recorder.stop()
    if recorder is not None:
        recorded = recorder.recording.arrow("launches").num_rows
        assert recorded == made, f"{way.name}: {recorded} of {made} launches are recorded"
    cuda.synchronize()
    return taken, quiet, first


def rounds(most: int, seconds: float, least: int = 4) -> Iterator[int]:
    """Numbers of rounds: as many as wanted, fewer once the time is up."""
    until = time.monotonic() + seconds
    for number in range(most):
        if number >= least and time.monotonic() > until:
            return
        yield number


def estimate(values: Sequence[float] | np.ndarray) -> dict[str, float]:
    """The median, and its 95 % bootstrap interval."""
    found = np.asarray(values, np.float64)
    draws = np.random.default_rng(0).choice(found, (2000, len(found)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return {"median": float(np.median(found)), "low": float(low), "high": float(high)}


def paired(plain: Sequence[float], recorded: Sequence[float], quiet: Sequence[bool]) -> dict[str, Any]:
    """What is added, in nanoseconds and as a share, from pairs of one round; quiet ones, if they are half of them."""
    first, second, good = np.asarray(plain), np.asarray(recorded), np.asarray(quiet, bool)
    enough = 2 * good.sum() >= len(good)
    if enough:
        first, second = first[good], second[good]
    return {
        "base_ns": float(np.median(first)), "added_ns": estimate(second - first),
        "share": estimate((second - first) / first), "pairs": len(first), "of": len(good),
        "moments": "quiet" if enough else "all",
    }


def microseconds(value: dict[str, float], digits: int = 2) -> str:
    """An estimate in nanoseconds, in words."""
    low, high = value["low"] / 1e3, value["high"] / 1e3
    return f"{value['median'] / 1e3:+.{digits}f} µs ({low:+.{digits}f} to {high:+.{digits}f})"


def percent(value: dict[str, float]) -> str:
    """An estimate of a share, in words."""
    return f"{value['median']:.1%} ({value['low']:.1%} to {value['high']:.1%})"


def spread(values: Sequence[float], unit: str, digits: int = 2) -> str:
    """Median, with the range."""
    middle = float(np.median(values))
    return f"{middle:.{digits}f} {unit} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def in_folder(call: Callable[[str], Any]) -> Any:
    """Call with a folder for journals, on the disk where users have theirs, not in memory."""
    base = Path(os.environ.get("KERNELSCOPE_BENCHMARK_FOLDER") or Path.home() / ".cache")
    base.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kernelscope-benchmark-", dir=base) as folder:
        return call(folder)
