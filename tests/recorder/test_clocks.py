"""Ranks that ask rank 0 for its clock, over what their launcher gives them to talk with."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Iterator
from functools import partial
from queue import Queue
from typing import Any

import pytest

import kernelscope
from kernelscope.clock import now
from kernelscope.native.journal import boot_id
from kernelscope.recorder.clocks import Peers, answer, ask, peers_of
from kernelscope.recording.clocks import fit

ELSEWHERE = "01234567-89ab-cdef-0123-456789abcdef"
SHIFT_NS, PPM = 1_000_000_000, 100


class Comm:
    """What is used of a communicator of mpi4py, between threads."""

    def __init__(self, rank: int, lines: dict[tuple[int, int], Queue[Any]]) -> None:
        self.rank, self.lines = rank, lines

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return 2

    def Send(self, numbers: Any, dest: int, tag: int) -> None:
        self.lines[self.rank, dest].put(numbers.copy())

    def Recv(self, numbers: Any, source: int, tag: int) -> None:
        numbers[:] = self.lines[source, self.rank].get(timeout=600)


@pytest.fixture
def comms() -> list[Comm]:
    lines: dict[tuple[int, int], Queue[Any]] = {(0, 1): Queue(), (1, 0): Queue()}
    return [Comm(rank, lines) for rank in range(2)]


@pytest.fixture
def together() -> Iterator[Callable[[Callable[[], Any]], None]]:
    """Runs rank 0 beside this thread, one call after another."""
    threads: list[threading.Thread] = []

    def end() -> None:
        for each in threads:
            each.join(60)
            assert not each.is_alive()

    def run(function: Callable[[], Any]) -> None:
        end()
        threads.append(threading.Thread(target=function))
        threads[-1].start()

    yield run
    end()


def elsewhere() -> int:
    return now() + SHIFT_NS + now() * PPM // 1_000_000


def test_the_clock_of_another_machine_is_found_within_its_bound(
        comms: list[Comm], together: Callable[[Callable[[], Any]], None]) -> None:
    zero, one = map(peers_of, comms)
    found: list[list[Any]] = []
    for _ in range(2):
        together(partial(answer, zero, elsewhere, ELSEWHERE))
        pings, boot = ask(one, now, boot_id())
        assert boot == ELSEWHERE and len(pings) == 16
        found.append(pings)
    fitted = fit(found[0], found[1])
    at = found[1][-1][1]
    moved = at + fitted.offset_ns + round((at - fitted.at_ns) * fitted.drift)
    assert abs(moved - (at + SHIFT_NS + at * PPM // 1_000_000)) <= fitted.bound_ns


def test_the_clock_of_the_same_machine_is_only_checked(
        comms: list[Comm], together: Callable[[Callable[[], Any]], None]) -> None:
    zero, one = map(peers_of, comms)
    together(partial(answer, zero, now, boot_id()))
    assert ask(one, now, boot_id()) == ([], boot_id())
    together(partial(answer, zero, elsewhere, boot_id()))
    assert len(ask(one, now, boot_id())[0]) == 16, "a clock of its own, on the same machine"


def test_a_recording_is_on_the_clock_of_rank_zero(
        comms: list[Comm], together: Callable[[Callable[[], Any]], None]) -> None:
    with kernelscope.record() as r:
        for _ in range(2):
            together(partial(answer, peers_of(comms[0]), elsewhere, ELSEWHERE))
            kernelscope.processes.align_clocks(comms[1])
    assert {name: len(pings) for name, pings in r.recording.metadata["pings"].items() if name != "boot"} == {
        "begin": 16, "end": 16}
    with kernelscope.record() as other:
        pass
    [row] = kernelscope.merge([r.recording, other.recording]).select(process=0).rows("processes")[:1]
    assert row["clock_offset_ns"] > SHIFT_NS and row["clock_bound_ns"] is not None


def test_torch_sends_tensors_of_its_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with torch, which is not installed here."""
    class Tensor(list[int]):
        def tolist(self) -> list[int]:
            return list(self)

    def make(*values: Any, dtype: str, device: str) -> Tensor:
        assert (dtype, device) == ("int64", "cuda")
        return Tensor(values[0] if isinstance(values[0], list) else [0] * values[0])

    sent: list[Any] = []

    def receive(tensor: Tensor, src: int) -> None:
        tensor[:] = [src, 5, 7]

    torch = types.SimpleNamespace(int64="int64", tensor=make, empty=make)
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    module: Any = types.ModuleType("torch.distributed")
    module.get_rank, module.get_world_size, module.get_backend = lambda: 1, lambda: 4, lambda: "nccl"
    module.send, module.recv = lambda tensor, dst: sent.append((dst, tensor.tolist())), receive
    peers = peers_of(module)
    peers.send(0, [1, 2, 3])
    assert (peers.rank, peers.size, peers.receive(3), sent) == (1, 4, [3, 5, 7], [(0, [1, 2, 3])])


def test_anything_else_is_refused() -> None:
    with pytest.raises(TypeError, match="neither a communicator of mpi4py nor torch"):
        kernelscope.processes.align_clocks("COMM_WORLD")
    assert isinstance(peers_of(Comm(0, {})), Peers)
