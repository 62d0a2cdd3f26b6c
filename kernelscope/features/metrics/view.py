"""The metrics of measured kernels: tables by subject, and what they mean for the kernel; programs get a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from kernelscope.errors import UnknownKernelError
from kernelscope.features.metrics.advice import CounterEvidence, counter_rules
from kernelscope.features.metrics.analyse import KernelCounters, arguments_of
from kernelscope.features.metrics.sets import unit_of
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import MISSING, counted, duration, listed, percent, scaled
from kernelscope.views.answer import Answer, HealthMembers, Long, Many, answer
from kernelscope.views.base import clean, columns, escape, table, with_notice, wrap
from kernelscope.views.html import folded, heading, sentence, style, style_element, table_of

if TYPE_CHECKING:
    import pandas as pd

_NOTHING = ("No kernel's counters were measured: %kernelscope metrics KERNEL measures one, %%kernelscope --metrics "
            "those of a cell.")
_OP = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"
_OPERATIONS, _OTHERS, _DEVICE = "Operations", "Others", "The device meanwhile"
#: Metrics of the sets by group, each with what it is in words.
_GROUPS: dict[str, dict[str, str]] = {
    "Time": {
        "gpu__time_duration.sum": "on the GPU",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": "busiest part of the multiprocessors, of its peak",
        "sm__inst_issued.avg.pct_of_peak_sustained_elapsed": "instructions issued, of the peak",
        "sm__warps_active.avg.pct_of_peak_sustained_active": "achieved occupancy",
    },
    "Memory": {
        "dram__bytes.sum": "DRAM, read and written",
        "dram__bytes.sum.pct_of_peak_sustained_elapsed": "DRAM's bandwidth, of its peak",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed": "busiest part of DRAM, of its peak",
        "lts__t_bytes.sum": "through L2", "l1tex__t_bytes.sum": "through L1",
        "l1tex__t_sector_hit_rate.pct": "hits in L1", "lts__t_sector_hit_rate.pct": "hits in L2",
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": "sectors a request, global loads",
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio": "sectors a request, global stores",
        "smsp__sass_sectors_mem_global.sum": "sectors of global memory",
        "smsp__sass_sectors_mem_global_ideal.sum": "sectors that would do",
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": "sectors of local memory loaded",
        "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": "sectors of local memory stored",
    },
    "Shared memory": {
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": "wavefronts, as the pipe counts them",
        "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared.sum": "wavefronts of instructions",
        "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared_ideal.sum": "wavefronts that would do",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": "bank conflicts of loads",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": "bank conflicts of stores",
    },
    _OPERATIONS: {
        **{_OP.format(f"{letter}{kind}"): f"{precision} {word}" for letter, precision in (
            ("f", "FP32"), ("d", "FP64"), ("h", "FP16")) for kind, word in (
            ("add", "additions"), ("mul", "multiplications"), ("fma", "fused multiply-adds"))},
        _OP.format("integer"): "integer operations",
        "sm__inst_executed_pipe_tensor.sum": "instructions of tensor cores",
    },
    _DEVICE: {
        **{f"{_OP.format(kind)}.peak_sustained": f"{precision} instructions a cycle at most"
           for kind, precision in (("ffma", "FP32"), ("dfma", "FP64"), ("hfma", "FP16"))},
        "sm__cycles_elapsed.avg.per_second": "clock of the multiprocessors",
        "dram__bytes.sum.peak_sustained": "DRAM a cycle at most", "dram__cycles_elapsed.avg.per_second": "DRAM's clock",
        "lts__t_bytes.sum.peak_sustained": "L2 a cycle at most", "lts__cycles_elapsed.avg.per_second": "L2's clock",
    },
}
#: So many kernels are shown with their tables open.
_OPEN = 3
_STYLE = """
.kscope .ks-metrics table { table-layout: fixed; }
.kscope .ks-metrics td:nth-child(1), .kscope .ks-metrics th:nth-child(1) { width: 34%; }
.kscope .ks-metrics td:nth-child(2), .kscope .ks-metrics th:nth-child(2) { width: 18%; }
.kscope .ks-metrics table td { overflow-wrap: anywhere; white-space: normal; }
.kscope .ks-metrics td:last-child { color: var(--ks-soft); font: 11.5px/1.5 var(--ks-mono); overflow-wrap: anywhere; }
"""


class MetricMembers(TypedDict):
    """One metric of a kernel."""

    metric: str
    value: float | None
    unit: Annotated[str | None, "null is not known"]


class CounterAdviceMembers(TypedDict):
    """What a rule on counters says."""

    code: str
    text: Long


class MeasuredKernelMembers(TypedDict):
    """A kernel specialization of which counters were measured."""

    kernel: str
    specialization_id: int | None
    launches: Annotated[int, "that were measured; values are their medians"]
    duration_ns: float | None
    metrics: Many[MetricMembers]
    missing: Many[str]
    advice: Annotated[Many[CounterAdviceMembers], "what the counters say of it, with its lines"]


class MetricsAnswer(Answer):
    """What kernelscope metrics says."""

    health: HealthMembers
    kernels: Many[MeasuredKernelMembers]


class MetricsView:
    """The metrics of the kernels that were measured in a recording.

    Parameters
    ----------
    recording : Recording
        What holds the measurements.
    kernel : str, optional
        Only this kernel: its qualified name, or the last part of it.

    Attributes
    ----------
    recording : Recording
        The same.
    kernels : list of kernelscope.features.metrics.analyse.KernelCounters
        Each measured specialization, with the median of its measured launches by metric.

    Raises
    ------
    UnknownKernelError
        No kernel of that name was measured.
    """

    def __init__(self, recording: Recording, kernel: str | None = None) -> None:
        self.recording = recording
        self._shown = shareable(recording)
        self._evidence = CounterEvidence(self._shown)
        found = self._evidence.measured
        self.kernels: list[KernelCounters] = [
            each for each in found if kernel is None or kernel in (each.kernel, each.kernel.rpartition(".")[2])]
        if kernel is not None and not self.kernels:
            known = ", ".join(dict.fromkeys(repr(clean(each.kernel)) for each in found)) or "none"
            raise UnknownKernelError(f"kernel {kernel!r} was not measured; measured were {known}")

    def to_frame(self) -> pd.DataFrame:
        """Return a row a metric: ``kernel``, ``specialization_id``, ``metric``, ``value``, ``unit`` and ``launches``.

        A value is the median of the measured launches in the unit of its metric; null where it could not be had.
        """
        import pandas as pd

        return pd.DataFrame([
            {"kernel": each.kernel, "specialization_id": each.specialization_id, "metric": name,
             "value": each.values.get(name), "unit": unit_of(name), "launches": each.count}
            for each in self.kernels for name in (*each.values, *each.missing)
        ], columns=["kernel", "specialization_id", "metric", "value", "unit", "launches"])

    def answer(self, limit: int | None = None) -> dict[str, Any]:
        """Return the same as an answer for programs; `limit` is that of `kernelscope.views.answer.answer`."""
        from kernelscope.views.card.answer import health_of

        names = listed([clean(each.kernel) for each in self.kernels])
        return answer(MetricsAnswer, {
            "verdict": f"{counted(len(self.kernels), 'kernel specialization')} measured: {names}." if self.kernels
            else self._nothing(), "health": health_of(self._shown),
            "kernels": Many(self.kernels, lambda each: {
                "kernel": each.kernel, "specialization_id": each.specialization_id, "launches": each.count,
                "duration_ns": each.duration_ns,
                "metrics": Many([*each.values.items()], lambda pair: {
                    "metric": pair[0], "value": pair[1], "unit": unit_of(pair[0])}, weight=8),
                "missing": Many(each.missing, weight=2),
                "advice": Many(_advice(self._evidence.of(each)), lambda said: {"code": said[0], "text": Long(said[1])},
                               weight=2)})}, limit)

    def __repr__(self) -> str:
        width = columns(None)
        if not self.kernels:
            return with_notice(self._shown.notice, wrap(self._nothing(), width, hanging=0))
        return with_notice(self._shown.notice, "\n\n".join(
            _text(self._title(each), each, _advice(self._evidence.of(each)), width) for each in self.kernels))

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        inside = "".join(_html(self._title(each), each, _advice(self._evidence.of(each)), len(self.kernels) <= _OPEN)
                         for each in self.kernels) or sentence(self._nothing())
        notice = f'<div class="ks-notice">{escape(self._shown.notice)}</div>' if self._shown.notice else ""
        return f'{style_element(style(), _STYLE)}<div class="kscope">{notice}{inside}</div>'


    def _nothing(self) -> str:
        """Return why nothing was measured, where it was asked for; else how to ask."""
        said = [f"{row['message']}" + (f"; {row['fix']}" if row["fix"] else "")
                for row in self._shown.rows("health") if row["probe"] == "metrics" and row["message"]]
        return f"No kernel's counters were measured: {'; '.join(said)}." if said else _NOTHING

    def _title(self, each: KernelCounters) -> tuple[str, str]:
        arguments = arguments_of(self._shown, each)
        peak = each.value("dram__bytes.sum.pct_of_peak_sustained_elapsed")
        said = [*([duration(each.duration_ns)] if each.duration_ns else []),
                *([f"{percent(peak / 100)} of DRAM's peak"] if peak is not None else []),
                f"{counted(each.count, 'launch', 'launches')} measured"]
        return clean(f"{each.kernel}({arguments})" if arguments else each.kernel), ", ".join(said)


def _advice(evidence: CounterEvidence) -> list[tuple[str, str]]:
    """Return what the rules on counters say, each with the rule's code."""
    rules = counter_rules()
    texts = {rule.code: [finding.text for finding in rule.say(evidence)] for rule in rules}
    return [(rule.code, text) for rule in rules if not any(texts.get(code) for code in rule.unless)
            for text in texts[rule.code]]


def _rows(each: KernelCounters) -> dict[str, list[tuple[str, str, str]]]:
    """Return what was measured by group: what it is in words, the value, and the metric's name."""
    known = {name: _shown(name, value) for name, value in each.values.items()} | dict.fromkeys(each.missing, MISSING)
    found = {group: [(label, known.pop(name), name) for name, label in names.items() if name in known]
             for group, names in _GROUPS.items()}
    done = [row for row in found[_OPERATIONS] if row[1] != "0"]
    if len(done) < len(found[_OPERATIONS]):  # what was counted and did not occur takes one line
        found[_OPERATIONS] = [*done, ("all others" if done else "of all kinds", "0", "")]
    found[_OTHERS] = [("", value, name) for name, value in known.items()]
    return {group: rows for group, rows in found.items() if rows}


def _text(title: tuple[str, str], each: KernelCounters, advice: list[tuple[str, str]], width: int) -> str:
    rows = [row for group, found in _rows(each).items()
            for row in ((group, ""), *((f"  {label or metric}", value) for label, value, metric in found))]
    return "\n".join([" · ".join(title), *(wrap(f"- {text}", width, 2, 2) for _, text in advice),
                      table(("", "value"), rows, width)])


def _html(title: tuple[str, str], each: KernelCounters, advice: list[tuple[str, str]], is_open: bool) -> str:
    said = "".join(f"<li>{sentence(text)}</li>" for _, text in advice)
    parts: list[str] = []
    for group, rows in _rows(each).items():
        cells = [f'<td class="ks-left">{escape(label or "")}</td><td>{escape(value)}</td>'
                 f'<td class="ks-left">{escape(name)}</td>' for label, value, name in rows]
        shown = table_of([("", group, ""), ("", "", ""), ("", "", "")], cells, left=(0, 2), dense=True, label=group)
        parts.append(folded(f"<b>{escape(group)}</b>", shown, scrolls=False) if group == _DEVICE else shown)
    tables = folded(f"<b>{counted(len(each.values) + len(each.missing), 'metric')}</b>", "".join(parts), is_open,
                    scrolls=False)
    return f'{heading(*title)}{f"<ul>{said}</ul>" if said else ""}<div class="ks-metrics">{tables}</div>'


def _shown(name: str, value: float) -> str:
    unit = unit_of(name)
    if unit == "ns":
        return duration(value)
    if unit == "%":
        return percent(value / 100)
    if unit in ("byte", "byte/s"):
        return scaled(value, unit.replace("byte", "B"))
    if unit == "cycle/s":
        return scaled(value, "Hz")
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3g}"
