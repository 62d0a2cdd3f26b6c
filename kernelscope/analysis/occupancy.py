"""Theoretical occupancy: how many blocks of a kernel a multiprocessor holds at once, and what keeps it from more.

The rules are those of NVIDIA's occupancy calculator: the header ``cuda_occupancy.h`` of the CUDA toolkit, and the table
"Technical Specifications per Compute Capability" of the CUDA C++ Programming Guide. Registers are given out by warp, in
units of 256, to warps that are spread over four sub-partitions; shared memory by block, in units of 128 bytes (256
before compute capability 8.0), and the driver keeps some of it for itself in each block. A preferred carve-out of
shared memory is not taken into account.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_WARP = 32
_REGISTER_UNIT = 256
_SUB_PARTITIONS = 4
_MOST_THREADS_A_BLOCK = 1024


@dataclass(frozen=True)
class Occupancy:
    """How many blocks fit on one multiprocessor, by each resource alone; None where a kernel uses none of it.

    Attributes
    ----------
    threads, blocks : int
        By resident threads, and by resident blocks.
    registers, shared_memory : int or None
        By registers and by shared memory.
    """

    threads: int
    blocks: int
    registers: int | None
    shared_memory: int | None

    @property
    def active_blocks(self) -> int:
        """Return blocks that a multiprocessor holds at once."""
        return min(count for _, count in self._counts())

    @property
    def limited_by(self) -> tuple[str, ...]:
        """Return the limiting resources: threads, registers, shared memory, blocks."""
        return tuple(name for name, count in self._counts() if count == self.active_blocks)

    def _counts(self) -> list[tuple[str, int]]:
        named = (("threads", self.threads), ("registers", self.registers), ("shared memory", self.shared_memory),
                 ("blocks", self.blocks))
        return [(name, count) for name, count in named if count is not None]


def occupancy(device: Mapping[str, Any], regs: int, static_shared_bytes: int, block_threads: int,
              dynamic_shared_bytes: int = 0) -> Occupancy | None:
    """Return how many blocks of a kernel fit on one multiprocessor; None where the device's limits are not known.

    Parameters
    ----------
    device : mapping
        A row of ``devices``.
    regs : int
        Registers a thread.
    static_shared_bytes, dynamic_shared_bytes : int
        Shared memory a block: declared in the kernel, and of the launch configuration.
    block_threads : int
        Threads a block.
    """
    threads, blocks = device["max_threads_per_multiprocessor"], device["max_blocks_per_multiprocessor"]
    registers, shared = device["registers_per_multiprocessor"], device["shared_per_multiprocessor_bytes"]
    major, _, minor = (device["compute_capability"] or "").partition(".")
    capability = (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
    reserved = device["reserved_shared_bytes"]
    if None in (threads, blocks, registers, shared, reserved) or capability is None:
        return None
    if not 1 <= block_threads <= _MOST_THREADS_A_BLOCK:
        return Occupancy(0, blocks, None, None)
    warps = -(-block_threads // _WARP)
    by_registers = by_shared = None
    if regs > 0:
        warps_a_partition = registers // _SUB_PARTITIONS // _round_up(regs * _WARP, _REGISTER_UNIT)
        by_registers = warps_a_partition * _SUB_PARTITIONS // warps
    unit = 256 if capability < (8, 0) else 128
    bytes_a_block = _round_up(static_shared_bytes + dynamic_shared_bytes + reserved, unit)
    if bytes_a_block:
        by_shared = shared // bytes_a_block
    return Occupancy(threads // _WARP // warps, blocks, by_registers, by_shared)


def limited_by(device: Mapping[str, Any], specialization: Mapping[str, Any], active_blocks: int, block_threads: int,
               dynamic_shared_bytes: int) -> tuple[str, ...]:
    """Return what keeps a multiprocessor from holding more blocks; empty where that is not known.

    It is not where the driver reported another number of blocks than these rules give: something else decides there,
    such as a carve-out of shared memory.

    Parameters
    ----------
    device, specialization : mapping
        Rows of ``devices`` and ``specializations``.
    active_blocks : int
        Blocks that a multiprocessor holds, from the driver.
    block_threads, dynamic_shared_bytes : int
        Threads and dynamic shared memory a block.
    """
    regs, static = specialization["regs"], specialization["static_shared_bytes"]
    if regs is None or static is None:
        return ()
    found = occupancy(device, regs, static, block_threads, dynamic_shared_bytes)
    return found.limited_by if found is not None and found.active_blocks == active_blocks else ()


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
