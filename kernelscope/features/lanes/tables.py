"""The samples of a device's counters over time."""

from __future__ import annotations

from kernelscope.schema.columns import PROCESS_ID, Table, instant, number, row_id, word

TABLES = (
    Table("pm_samples", "one metric of a device over one short interval, recorded only on request", (
        row_id("device_id", "The device: all that it did counts, also what other processes had it do.", nullable=True),
        row_id("cell_id", "The cell that ran, or whose work was waited for, when it began; null between cells.",
               nullable=True),
        word("name", "The metric, as Nsight Compute names it: sm__cycles_active.avg.pct_of_peak_sustained_elapsed.",
             redaction="metric"),
        instant("start_ns", "When the interval began."),
        instant("end_ns", "When it ended."),
        number("value", "Its value; null where samples of this time were lost."),
        PROCESS_ID,
    ), since=7, is_event=True),
)
