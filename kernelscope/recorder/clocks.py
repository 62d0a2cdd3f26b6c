"""The clocks of processes that work together: each asks rank 0 for its own, and its recording keeps that as pings."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelscope.clock import Clock, now
from kernelscope.native.journal import boot_id
from kernelscope.recorder.session import Session
from kernelscope.recorder.worker import Worker

#: So often rank 0 is asked: the fastest round trip counts. On its machine it is only checked whether the clock is one.
_TRIES, _CHECKS = 16, 3
#: Of our messages among those of an MPI communicator.
_TAG = 20_471

Ping = tuple[int, int, int]


@dataclass(frozen=True)
class Peers:
    """The ranks of a job: who this is, and how whole numbers of 64 bits, three at a time, are sent to another.

    Attributes
    ----------
    rank, size : int
        This process's, and how many there are.
    send : callable
        Sends to a rank.
    receive : callable
        Waits for those of a rank.
    """

    rank: int
    size: int
    send: Callable[[int, Sequence[int]], None]
    receive: Callable[[int], list[int]]


def peers_of(comm: Any) -> Peers:
    """Return how the ranks of a communicator of mpi4py, or of ``torch.distributed``, are reached; nothing is pickled.

    Raises
    ------
    TypeError
        It is neither.
    """
    if all(hasattr(comm, name) for name in ("Get_rank", "Get_size", "Send", "Recv")):
        def receive(source: int) -> list[int]:
            numbers = np.empty(3, np.int64)
            comm.Recv(numbers, source=source, tag=_TAG)
            return numbers.tolist()

        return Peers(comm.Get_rank(), comm.Get_size(),
                     lambda to, numbers: comm.Send(np.array(numbers, np.int64), dest=to, tag=_TAG), receive)
    if getattr(comm, "__name__", "") == "torch.distributed":
        torch: Any = importlib.import_module("torch")
        device = "cuda" if comm.get_backend() == "nccl" else "cpu"  # NCCL sends what is on the GPU

        def receive_tensor(source: int) -> list[int]:
            numbers = torch.empty(3, dtype=torch.int64, device=device)
            comm.recv(numbers, src=source)
            return numbers.tolist()

        return Peers(comm.get_rank(), comm.get_world_size(),
                     lambda to, numbers: comm.send(torch.tensor(numbers, dtype=torch.int64, device=device), dst=to),
                     receive_tensor)
    raise TypeError(f"{comm!r} is neither a communicator of mpi4py nor torch.distributed")


def mirrored(before: int, there: int, after: int) -> Ping:
    """Return what the other side would have found, had it asked: it read its clock between two readings here."""
    middle = (before + after) // 2
    return there - (after - middle), middle, there + (middle - before)


def answer(peers: Peers, clock: Clock, boot: str | None) -> None:
    """Tell all other ranks this one's clock, as often as each asks."""
    machine = np.frombuffer(uuid.UUID(boot).bytes if boot else bytes(16), np.int64).tolist()
    for rank in range(1, peers.size):
        while peers.receive(rank)[0]:
            peers.send(rank, [clock(), *machine])


def ask(peers: Peers, clock: Clock, own: str | None) -> tuple[list[Ping], str | None]:
    """Return pings, as if rank 0 had sent them, and its machine's boot; none where both clocks are one."""
    pings: list[Ping] = []
    boot, is_shared = own, own is not None
    while len(pings) < (_CHECKS if is_shared else _TRIES):
        before = clock()
        peers.send(0, [1, 0, 0])
        there, *machine = peers.receive(0)
        after = clock()
        found = np.array(machine, np.int64).tobytes()
        boot = str(uuid.UUID(bytes=found)) if any(found) else None
        is_shared = is_shared and boot == own and before <= there <= after
        pings.append(mirrored(before, there, after))
    peers.send(0, [0, 0, 0])
    return [] if is_shared else pings, boot


def align(comm: Any) -> None:
    """Find how this rank's clock differs from that of rank 0, and keep it with the recording under way, if any."""
    peers = peers_of(comm)
    if peers.rank == 0:
        answer(peers, now, boot_id())
        return
    pings, boot = ask(peers, now, boot_id())
    session = Session.active
    if not pings or session is None:
        return
    held = session.sink.metadata.get("pings")
    session.sink.metadata["pings"] = {**held, "end": pings} if held else {"begin": pings, "end": [], "boot": boot}
    if Worker.active is not None:
        session.begin_journal(Worker.active.recorder.name)
