"""Launches that were measured with the GPU's counters, and what these said."""

from __future__ import annotations

from kernelscope.schema.columns import (
    PROCESS_ID,
    Neutral,
    Table,
    count,
    enumeration,
    instant,
    key,
    long_row_id,
    number,
    row_id,
    text,
    word,
)

TABLES = (
    Table("measurements", "one launch of a kernel that was measured with the GPU's counters, under replay", (
        key("measurement_id", "Row number."),
        word("name", "The kernel's readable name.", redaction=Neutral("kernel")),
        word("entry_name", "Its mangled name in the machine code.", nullable=True, redaction=Neutral("entry")),
        row_id("specialization_id", "The recorded specialization that it is; null for other kernels.", nullable=True),
        row_id("configuration_id", "The launch configuration; null for other kernels.", nullable=True),
        row_id("device_id", "The device.", nullable=True),
        row_id("cell_id", "The cell that ran; null between cells.", nullable=True),
        long_row_id("launch_id", "The launch; null where it was not recorded.", nullable=True),
        count("number", "Which launch of that kernel it was, from 0, counted since measuring began.", nullable=False),
        enumeration("replay", {"kernel": "", "user": ""}, lead="How the launch was repeated: "),
        text("metric_set", "basic, roofline, memory or full; or the names of the metrics as they were asked for.",
             ("basic", "roofline", "memory", "full"), nullable=False, redaction=Neutral("metrics")),
        count("passes", "How often the launch ran, each time for other metrics.", nullable=False),
        instant("start_ns", "When the first pass began."),
        instant("end_ns", "When the last pass was over."),
        PROCESS_ID,
    ), since=7, is_event=True, is_ordered=True, is_replay=True),
    Table("metrics", "one metric of one measured launch", (
        row_id("measurement_id", "The measured launch."),
        count("pc_offset", "Bytes from the kernel's first instruction, of what one instruction did; null for the "
              "whole launch."),
        word("name", "The metric, as Nsight Compute names it: dram__bytes.sum.", redaction="metric"),
        number("value", "Its value; null where it could not be had."),
        word("unit", "Its unit, such as byte, ns, inst or %.", nullable=True, redaction="unit"),
    ), since=7, part_of="measurements"),
)
