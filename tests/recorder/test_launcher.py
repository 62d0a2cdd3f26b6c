"""What each launcher says of a process in its environment."""

from __future__ import annotations

from typing import Any

import pytest

from kernelscope.recorder.launcher import launched_by

TORCHRUN = {"RANK": "5", "LOCAL_RANK": "1", "GROUP_RANK": "2", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "2"}
SRUN = {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_STEP_ID": "0", "SLURMD_NODENAME": "node07"}


@pytest.mark.parametrize(("environ", "wanted"), [
    ({}, {}),
    (TORCHRUN, {"launcher": "torchrun", "rank": 5, "local_rank": 1}),
    ({"OMPI_COMM_WORLD_RANK": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_SIZE": "8"},
     {"launcher": "mpi", "rank": 4, "local_rank": 0}),
    ({"MV2_COMM_WORLD_RANK": "2", "MV2_COMM_WORLD_LOCAL_RANK": "2"}, {"launcher": "mpi", "rank": 2, "local_rank": 2}),
    ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, {"launcher": "mpi", "rank": 1, "local_rank": 1}),
    ({"PMIX_RANK": "6"}, {"launcher": "mpi", "rank": 6}),
    (SRUN, {"launcher": "slurm", "rank": 3, "local_rank": 1, "host": "node07"}),
    # srun starts MPI's processes through PMIx, and torchrun's agents.
    ({**SRUN, "PMIX_RANK": "3"}, {"launcher": "mpi", "rank": 3, "local_rank": 1, "host": "node07"}),
    ({**SRUN, **TORCHRUN}, {"launcher": "torchrun", "rank": 5, "local_rank": 1, "host": "node07"}),
    # A batch script, which is no process of srun's; a RANK of somebody's own; numbers that are none.
    ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURMD_NODENAME": "node07"}, {"host": "node07"}),
    ({"RANK": "5"}, {}),
    ({"RANK": "-1", "WORLD_SIZE": "8"}, {}),
    ({"RANK": "9" * 30, "WORLD_SIZE": "8"}, {}),
    ({"RANK": "0", "LOCAL_RANK": "?", "WORLD_SIZE": "1"}, {"launcher": "torchrun", "rank": 0}),
    ({"IPP_CLUSTER_ID": "", "IPP_PROFILE_DIR": "/x"}, {"launcher": "ipyparallel"}),
    ({"CUDA_VISIBLE_DEVICES": "GPU-6b0cb1c4-1b1d-4d3f-9b8a-0123456789ab"},
     {"gpu_uuid": "GPU-6b0cb1c4-1b1d-4d3f-9b8a-0123456789ab"}),
    ({"CUDA_VISIBLE_DEVICES": "0,1"}, {}),
    ({"KERNELSCOPE_RECORD_OPTIONS": '{"parent": 7}'}, {"launcher": "subprocess"}),
    ({"KERNELSCOPE_RECORD_OPTIONS": '{"parent": 1}'}, {}),  # its own recording's
    ({"KERNELSCOPE_RECORD_OPTIONS": "nothing"}, {}),
])
def test_the_environment_says_who_a_process_is(environ: dict[str, str], wanted: dict[str, Any]) -> None:
    assert launched_by(environ, 1) == wanted
