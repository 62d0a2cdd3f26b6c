"""The probe of stall reasons: samples the warps of all kernels while a recording lasts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kernelscope.features.stalls.options import LAUNCHES, StallsOptions
from kernelscope.features.stalls.pc_sampling import MOST, PcSampling
from kernelscope.probes.base import Probe, ProbeProtocol
from kernelscope.probes.cupti import has_driver
from kernelscope.probes.cupti.contexts import Contexts
from kernelscope.probes.cupti.library import Cupti, CuptiError, find
from kernelscope.probes.cupti.records import readable
from kernelscope.probes.driver import device
from kernelscope.probes.sink import Sink
from kernelscope.units import counted, percent

#: Of samples without a kernel, as of the driver's own code, there are at most 11 % on an H100. Where there are more
#: than this share, CUPTI does not know the kernels.
_FEW_OTHERS, _MANY_OTHERS = 0.01, 0.5


def probes(options: StallsOptions) -> tuple[list[ProbeProtocol], list[dict[str, Any]]]:
    """Return the probe; where there is no GPU none, and a row of ``health`` that says so."""
    if not has_driver():
        return [], [{"probe": StallsProbe.name, "status": "unavailable",
                     "message": "stall reasons were not recorded: there is no GPU here"}]
    begin_anew()  # before any probe uses CUPTI
    return [StallsProbe(is_serialized=options.stalls == LAUNCHES)], []


class StallsProbe(Probe):
    """Has the GPU sample its warps while a recording session lasts.

    The contexts that there are when recording begins are sampled: those of the devices in use, and where none is, that
    of the first device, which is made for it. What runs in others is counted.

    Parameters
    ----------
    is_serialized : bool
        Run kernels one by one, so that each sample has its launch.
    path : str, optional
        CUPTI's library, instead of the one that is found.
    contexts : list of (int, int), optional
        Handles of contexts with the ordinals of their devices, instead of those of the process; both are for tests.
    """

    name = "stalls"

    def __init__(self, *, is_serialized: bool = False, path: str | None = None,
                 contexts: list[tuple[int, int]] | None = None) -> None:
        super().__init__()
        self._is_serialized = is_serialized
        self._path = path
        self._is_given = contexts is not None
        self._contexts = None if contexts is None else Contexts(contexts)
        self._sampled: list[tuple[PcSampling, int]] = []
        self._context_ids: set[int | None] = set()
        self._process = os.getpid()

    def install(self, sink: Sink, detail: str) -> None:
        """Begin to sample. See `ProbeProtocol.install`."""
        self.sink = sink
        try:
            path = self._path or find()
            self._contexts = self._contexts or Contexts.of_process()
            for context, ordinal in self._contexts.handles:
                sampling = PcSampling(path, context, is_serialized=self._is_serialized)
                self._sampled.append((sampling, ordinal))  # before: what a Ctrl-C interrupts is undone too
                sampling.begin()
                self._context_ids.add(sampling.context_id())
        except CuptiError as problem:
            self._end()
            self._sampled = []
            self.report(sink, f"stall reasons were not recorded: {problem}", status="unavailable", fix=problem.fix)
        else:
            sink.before_part.append(self._take)

    def uninstall(self) -> None:
        """Sample no more, and take the rest. See `ProbeProtocol.uninstall`."""
        with self.lock:
            self._end()

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Take what was sampled so far, and state how well it went. See `ProbeProtocol.describe`."""
        if not self._sampled:
            return
        self._take()
        sampled = [sampling for sampling, _ in self._sampled]
        samples, dropped = sum(one.total for one in sampled), sum(one.dropped for one in sampled)
        row: dict[str, Any] = {
            "probe": self.name, "status": "ok", "dropped": dropped,
            "message": f"{counted(samples, 'sample')} of warps, {_how_often(sampled[0].period)}"
                       + ("; kernels ran one by one" if self._is_serialized else "") + _without(sampled)}
        losses = [*_losses(sampled, dropped), *self._not_sampled(sink)]
        if losses:
            row |= {"status": "degraded", "message": "; ".join([row["message"], *(what for what, _ in losses)]),
                    "fix": "; ".join(dict.fromkeys(fix for _, fix in losses))}
        sink.stated[self.name] = row

    def _not_sampled(self, sink: Sink) -> list[tuple[str, str]]:
        """What is said of kernels in contexts that are not sampled; nothing where CUPTI cannot tell contexts apart."""
        kernels = 0 if None in self._context_ids else sum(
            count for context, count in sink.gpu.kernels_in.items() if context not in self._context_ids)
        return [] if not kernels else [(
            f"{counted(kernels, 'kernel')} ran in CUDA contexts that were made after recording began, or were not "
            "current then, and were not sampled", "launch something on each device before you record")]

    def _take(self) -> None:
        """Hand over what was sampled since this was called last."""
        assert self.sink is not None
        if os.getpid() != self._process:
            return
        with self.lock:
            for sampling, ordinal in self._sampled:
                try:
                    sampling.collect()
                except CuptiError as problem:  # what was taken before stays
                    self.sink.swallow(self.name, problem)
                rows = sampling.taken()
                of_device = self._device(ordinal) if rows else 0
                self.sink.rows["pc_samples"] += [
                    {"name": readable(row.entry_name), "entry_name": row.entry_name, "device_id": of_device,
                     "correlation_id": row.correlation_id or None, "pc_offset": row.pc_offset, "reason": row.reason,
                     "samples": row.samples, "not_issued": row.not_issued} for row in rows]

    def _device(self, ordinal: int) -> int:
        assert self.sink is not None
        if self._is_given:
            return self.sink.devices.intern(("device", ordinal), lambda: {"ordinal": ordinal})
        return device(self.sink, ordinal)

    def _end(self) -> None:
        if os.getpid() != self._process:  # a child of fork() has nothing of it, and must not touch it
            return
        first: CuptiError | None = None
        try:
            for sampling, _ in self._sampled:
                try:
                    sampling.end()
                except CuptiError as problem:  # the others end too
                    first = first or problem
        finally:
            if self._contexts is not None:
                self._contexts.release()
        if first is not None:
            raise first


def begin_anew(path: str | None = None) -> None:
    """Have CUPTI learn of all code that is loaded, before warps are sampled; `path` is its library's, for tests.

    What is missing where that cannot be done, as another tool has CUPTI or lanes were recorded, is said at the end.
    """
    if Cupti.may_begin_anew:
        with suppress(CuptiError):
            Cupti(path or find()).begin_anew()


def _without(sampled: list[PcSampling]) -> str:
    others, total = sum(one.of_others for one in sampled), sum(one.total for one in sampled)
    return f"; {percent(others / total)} of them without a kernel" if others > _FEW_OTHERS * total else ""


def _losses(sampled: list[PcSampling], dropped: int) -> list[tuple[str, str]]:
    """Return what is missing of the samples, with what to do about it."""
    losses: list[tuple[str, str]] = []
    others, total, left = (sum(counts) for counts in zip(
        *((one.of_others, one.total, one.left) for one in sampled), strict=True))
    if others > _MANY_OTHERS * total:
        losses.append((f"{counted(others, 'sample')} are of kernels that CUPTI tells nothing of, because their code "
                       "was loaded while nothing was sampled, and another tool or --lanes has used CUPTI since",
                       "restart the kernel, and record stalls before anything else"))
    if dropped or any(one.is_buffer_full for one in sampled):
        lost = f"{counted(dropped, 'sample')} more" if dropped else "more samples"
        losses.append((f"the GPU lost {lost}, as its buffer was full", "record fewer or shorter kernels at once"))
    if left:
        losses.append((f"those of {counted(left, 'instruction')} are missing, as CUPTI's buffer for {MOST:,} "
                       "instructions was full", "record fewer kernels at once"))
    return losses


def _how_often(period: int | None) -> str:
    return "as often as CUPTI chooses" if period is None else f"one every {2 ** period:,} cycles of a multiprocessor"
