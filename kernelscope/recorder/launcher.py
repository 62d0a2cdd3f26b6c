"""What a launcher of many processes says of each of them in its environment: rank, rank on its machine, and so on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from kernelscope.processes import OPTIONS

#: Of the options that a recording gives its children: its process, which makes and removes their folder.
PARENT = "parent"

#: For each launcher, its variables of the rank among all processes and of the rank on the machine; the first that is
#: set counts. A launcher that starts another one's processes, as Slurm does those of MPI, comes after it.
_RANKS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
    "torchrun": (("RANK",), ("LOCAL_RANK",)),
    # Open MPI; MVAPICH; MPICH, Intel MPI and Hydra; PMIx, of Open MPI 5 and Slurm.
    "mpi": (("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK",
             "SLURM_LOCALID")),
    # https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
    "slurm": (("SLURM_PROCID",), ("SLURM_LOCALID",)),
}
#: What must be set as well: a user may have a RANK, and the script of a Slurm job has a rank and is no process of srun.
_ALSO = {"torchrun": "WORLD_SIZE", "slurm": "SLURM_STEP_ID"}
#: Of an engine's environment, never of its client's.
_ENGINE = ("IPP_CLUSTER_ID", "IPP_PROFILE_DIR", "IPP_CONNECTION_INFO")
_MOST_RANKS = 1 << 31


def launched_by(environ: Mapping[str, str], pid: int | None = None) -> dict[str, Any]:
    """Return what the environment says of a process, by columns of the table ``processes``.

    Parameters
    ----------
    environ : mapping of str to str
        The environment of the process.
    pid : int, optional
        Its number: a process that another one's recording has started is a subprocess of that, if nothing else.

    Returns
    -------
    dict
        ``launcher`` (torchrun, mpi, slurm, ipyparallel or subprocess), ``rank``, ``local_rank``, ``host``,
        ``gpu_uuid``; without those of which nothing is said.
    """
    found: dict[str, Any] = {}
    for launcher, (ranks, local_ranks) in _RANKS.items():
        rank = _number(environ, ranks)
        if rank is None or (launcher in _ALSO and _ALSO[launcher] not in environ):
            continue
        found |= {"launcher": launcher, "rank": rank, "local_rank": _number(environ, local_ranks)}
        break
    if not found and any(name in environ for name in _ENGINE):
        found["launcher"] = "ipyparallel"
    if not found and pid is not None and parent_of(environ.get(OPTIONS, "")) not in (None, pid):
        found["launcher"] = "subprocess"
    found["host"] = environ.get("SLURMD_NODENAME")
    # Where every process has one GPU to itself it sees one by its UUID: dask-cuda's, or a scheduler's.
    visible = environ.get("CUDA_VISIBLE_DEVICES", "").strip()
    if re.fullmatch(r"(GPU|MIG)-[0-9a-fA-F-]{8,64}", visible):
        found["gpu_uuid"] = visible
    return {name: value for name, value in found.items() if value is not None and value != ""}


def options_of(text: str) -> dict[str, Any]:
    """Return the options that the variable `OPTIONS` holds.

    Raises
    ------
    ValueError
        It is no JSON object.
    """
    try:
        given: Any = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise ValueError(f"{OPTIONS}={text!r} is no JSON object, such as {{\"detail\": \"launch\"}}")
    return cast("dict[str, Any]", given)


def parent_of(text: str) -> int | None:
    """Return the process whose recording the options in `OPTIONS` are of; None where they are the user's."""
    try:
        parent = options_of(text).get(PARENT)
    except ValueError:
        return None
    return parent if isinstance(parent, int) else None


def _number(environ: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        text = environ.get(name, "").strip()
        if text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < _MOST_RANKS:
            return int(text)
    return None
