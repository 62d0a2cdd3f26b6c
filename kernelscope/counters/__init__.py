"""The GPU's hardware counters and samples, read in this process through CUPTI."""
