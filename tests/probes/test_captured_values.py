"""Disk hits of kernels that capture values: equal sources compare equal, changed values do not."""
