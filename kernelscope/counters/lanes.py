"""The probe of lanes over time: samples how busy a device is while a recording lasts."""

from __future__ import annotations

_SHARE = ".avg.pct_of_peak_sustained_elapsed"
#: What is sampled: of each entry the first that a chip can sample in one pass with those before it.
WANTED = (
    ("sm__cycles_active" + _SHARE,),
    ("dram__throughput" + _SHARE, f"dram__read_throughput{_SHARE}+dram__write_throughput{_SHARE}"),
    ("sm__inst_executed_pipe_tensor" + _SHARE, "sm__pipe_tensor_cycles_active" + _SHARE),
)
