"""The samples of warps, and the reasons why a warp does not go on.

The reasons' meanings are those of the Nsight Compute documentation (Profiling Guide, "Warp Stall Reasons",
https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#statistical-sampler).
"""

from __future__ import annotations

from typing import NamedTuple

from kernelscope.schema.columns import PROCESS_ID, Neutral, Table, count, long_row_id, number, row_id, word


class Reason(NamedTuple):
    """A stall reason.

    Attributes
    ----------
    group : str
        What it is about, which has a color of its own: ``issued``, ``ready``, ``memory``, ``shared``, ``barrier``,
        ``math``, ``code`` or ``other``.
    label : str
        What a warp does meanwhile, in a few words.
    meaning : str
        One sentence.
    """

    group: str
    label: str
    meaning: str


#: The stall reasons by CUPTI's names, without what these have in common.
REASONS: dict[str, Reason] = {
    "selected": Reason("issued", "issuing", "The warp was selected, and issued an instruction: no stall."),
    "not_selected": Reason("ready", "ready, another warp issued",
                           "The warp was eligible, and the scheduler selected another one: enough warps are there."),
    "long_scoreboard": Reason("memory", "waiting for memory",
                              "The warp waits for data of an L1TEX operation: global, local, surface or texture "
                              "memory."),
    "short_scoreboard": Reason("shared", "waiting for shared memory or special functions",
                               "The warp waits for the result of a memory input/output (MIO) operation other than "
                               "L1TEX: mostly shared memory, also special math and dynamic branches."),
    "barrier": Reason("barrier", "waiting at a barrier", "The warp waits for its block's other warps at a barrier."),
    "membar": Reason("barrier", "waiting at a memory fence", "The warp waits at a memory barrier, such as a fence."),
    "wait": Reason("math", "waiting for the instruction before",
                   "The warp waits for an execution dependency of fixed latency."),
    "math_pipe_throttle": Reason("math", "waiting for a math pipe",
                                 "The warp waits for an execution pipe that others use, such as that of FP64."),
    "mio_throttle": Reason("shared", "shared memory's queue is full",
                           "The warp waits for the queue of memory input/output (MIO) instructions: shared memory, "
                           "special math, dynamic branches."),
    "lg_throttle": Reason("memory", "the memory queue is full",
                          "The warp waits for the L1 queue of local and global memory operations: too many, or too "
                          "small ones."),
    "tex_throttle": Reason("memory", "the texture queue is full",
                           "The warp waits for the L1 queue of texture operations."),
    "drain": Reason("memory", "writing before its end",
                    "The warp has exited and waits for its memory writes, so that its resources can be freed."),
    "imc_miss": Reason("code", "waiting for a constant",
                       "The warp waits for a miss of the immediate constant cache."),
    "branch_resolving": Reason("code", "waiting for a branch",
                               "The warp waits until the target of a branch is computed."),
    "no_instructions": Reason("code", "waiting for its code",
                              "The warp waits to fetch an instruction, or for a miss of the instruction cache: long "
                              "code, or jumps over it."),
    "dispatch_stall": Reason("other", "held back by the dispatcher",
                             "The warp waits for the dispatcher, which holds it back for conflicts or other events."),
    "sleeping": Reason("other", "sleeping", "All threads of the warp are blocked, have yielded, or sleep."),
    "gmma": Reason("math", "waiting for a warpgroup's matrix product",
                   "The warp waits for a matrix multiplication of its warpgroup on the tensor cores."),
    "warpgroup_arrive": Reason("barrier", "waiting for its warpgroup",
                               "The warp waits at a WARPGROUP.ARRIVES or WARPGROUP.WAIT instruction."),
    "misc": Reason("other", "stalled otherwise", "The warp was stalled for another reason."),
}

TABLES = (
    Table("pc_samples", "the samples of one instruction of a kernel with one stall reason, recorded only on request", (
        word("name", "The kernel's readable name.", redaction=Neutral("kernel")),
        word("entry_name", "Its mangled name in the machine code.", nullable=True, redaction=Neutral("entry")),
        row_id("specialization_id", "The recorded specialization that it is; null for other kernels.", nullable=True),
        row_id("device_id", "The device.", nullable=True),
        row_id("cell_id", "The cell that ran; null where several were recorded at once.", nullable=True),
        long_row_id("launch_id", "The launch; null where kernels were not run one by one, which is the default.",
                    nullable=True),
        number("pc_offset", "Where the instruction is: bytes from the first one of its function.", "int64",
               nullable=False),
        word("reason", "Why the warp did not go on, by CUPTI's name without what all have in common: long_scoreboard, "
             "barrier, and so on; selected where it did.", REASONS, redaction=Neutral("reason")),
        count("samples", "How many samples of it were taken.", nullable=False),
        count("not_issued", "How many of these in cycles in which the scheduler issued no instruction of any warp."),
        PROCESS_ID,
    ), since=7, is_event=True),
)
