"""The metrics of measured kernels as a table: a notebook and a terminal get it as text, programs as a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelscope.analysis.counters import KernelCounters, measured
from kernelscope.counter_sets import unit_of
from kernelscope.errors import UnknownKernelError
from kernelscope.recording.model import Recording
from kernelscope.units import MISSING, counted, duration, listed, percent, scaled
from kernelscope.views.answer import Many, answer
from kernelscope.views.base import clean, columns, table, wrap

if TYPE_CHECKING:
    import pandas as pd

_NOTHING = ("No kernel's counters were measured: %kernelscope metrics KERNEL measures one, %%kernelscope --metrics "
            "those of a cell.")


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
    kernels : list of kernelscope.analysis.counters.KernelCounters
        Each measured specialization, with the median of its measured launches by metric.

    Raises
    ------
    UnknownKernelError
        No kernel of that name was measured.
    """

    def __init__(self, recording: Recording, kernel: str | None = None) -> None:
        self.recording = recording
        found = measured(recording)
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
        return answer("metrics", {
            "verdict": f"{counted(len(self.kernels), 'kernel specialization')} measured: {names}." if self.kernels
            else _NOTHING, "health": health_of(self.recording),
            "kernels": Many(self.kernels, lambda each: {
                "kernel": each.kernel, "specialization_id": each.specialization_id, "launches": each.count,
                "duration_ns": each.duration_ns,
                "metrics": Many([*each.values.items()], lambda pair: {
                    "metric": pair[0], "value": pair[1], "unit": unit_of(pair[0])}, weight=8),
                "missing": Many(each.missing, weight=2)})}, limit)

    def __repr__(self) -> str:
        width = columns(None)
        if not self.kernels:
            return wrap(_NOTHING, width, hanging=0)
        return "\n\n".join(_kernel(each, width) for each in self.kernels)

    def _ipython_display_(self) -> None:
        print(self)


def _kernel(each: KernelCounters, width: int) -> str:
    rows = [(name, _shown(name, value)) for name, value in each.values.items()]
    rows += [(name, MISSING) for name in each.missing]
    heading = f"{clean(each.kernel)} · {counted(each.count, 'launch', 'launches')} measured"
    return f"{heading}\n{table(('metric', 'value'), rows, width)}"


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
