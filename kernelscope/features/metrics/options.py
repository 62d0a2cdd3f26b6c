"""The options ``metrics``, ``metrics_of``, ``replay`` and ``notify``, on a line ``--metrics`` and ``--metrics-of``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kernelscope.features.metrics.sets import instruction_metric, metrics_of
from kernelscope.recorder.core_options import COUNTERS, CoreOptions
from kernelscope.recorder.option import AROUND, flag, option


def _replay_problem(options: MetricsOptions) -> str | None:
    if options.replay == "user" and (options.metrics is None or options.metrics_of is not None):
        return ("replay 'user' needs metrics: there is nothing to repeat without" if options.metrics is None else
                "replay 'user' measures all kernels as one range: leave out metrics_of")
    return None


def _metrics_problem(options: MetricsOptions) -> str | None:
    if options.metrics is None:
        return None
    if type(options.metrics) is not str:
        return f"metrics {options.metrics!r} is no set of metrics: it takes a text, such as 'basic'"
    if options.gpu == "events":
        return "metrics needs CUPTI for itself: leave out gpu 'events'"
    try:
        metrics_of(options.metrics)
    except ValueError as error:
        return str(error)
    return None


def _metrics_of_inside(_: MetricsOptions, around: MetricsOptions) -> str | None:
    """Say which kernels were measured; of none it is said that there are no metrics."""
    return f"measured {around.metrics_of or 'all kernels'}, {AROUND}" if around.metrics else None


def _replay_inside(options: MetricsOptions, around: MetricsOptions) -> str | None:
    return f"measured with replay {around.replay!r}, {AROUND}, not {options.replay!r}" if around.metrics else None


def _notify_inside(options: MetricsOptions, around: MetricsOptions) -> str | None:
    if options.notify is None or not around.metrics:
        return None
    return f"notify was not called: the recording around it has {'none' if around.notify is None else 'another one'}"


@dataclass(frozen=True, kw_only=True)
class MetricsOptions(CoreOptions):
    """Adds what is measured with the GPU's counters to the options of a recording."""

    metrics: str | None = field(default=None, metadata=option(
        "measure the first launch of each kernel with the GPU's counters: basic, roofline, memory, full, or Nsight "
        "Compute's names of metrics with commas between; launches are replayed, and the GPU's times are not recorded",
        flag("--metrics", nargs="?", const="basic", metavar="SET",
             help="measure the first launch of each kernel with the GPU's counters: basic (the default), roofline, "
                  "memory, full, or names of metrics; launches are replayed"),
        check=_metrics_problem, exclusive=COUNTERS,
        inside=lambda _, around: f"measured {around.metrics or 'no metrics'}, {AROUND}"))
    metrics_of: str | None = field(default=None, metadata=option(
        "measure only kernels of this name, or that match it (* and ?); all without it",
        flag("--metrics-of", metavar="KERNEL", help="with --metrics: only kernels of this name or pattern"),
        check=lambda options: "metrics_of needs metrics" if options.metrics_of and not options.metrics else None,
        inside=_metrics_of_inside))
    replay: str = field(default="kernel", metadata=option(
        "who repeats what is measured with metrics: CUPTI, each kernel, and restores memory (kernel); or you, in a "
        "loop over the recorder's passes(), and all that is launched in it is measured as one range (user)",
        choices=("kernel", "user"), check=_replay_problem, inside=_replay_inside, is_inherited=False))
    notify: Callable[[str, bool], object] | None = field(default=None, metadata=option(
        "told what a measurement with metrics does: called with a line, and whether it is to stay or makes room for "
        "the next one", inside=_notify_inside, is_inherited=False, reports_on="metrics"))

    @property
    def needs_code(self) -> bool:
        """Whether the code of kernels is recorded: it says of which line an instruction is, and what it does."""
        is_by_instruction = self.metrics is not None and any(map(instruction_metric, metrics_of(self.metrics)))
        return is_by_instruction or super().needs_code

    @property
    def traces_gpu(self) -> bool:
        """Whether CUPTI traces what the GPU does: launches that are replayed have no times of their own."""
        return self.metrics is None and super().traces_gpu
