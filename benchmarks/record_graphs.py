"""Makes the recording of CUDA graphs of notebooks/recordings on a real GPU.

    python benchmarks/record_graphs.py OUTDIR
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
from cuda.core.graph import GraphBuilder
from numba import cuda

from kernelscope.graphs import KernelNode, MemcpyNode, MemsetNode, build
from kernelscope.recorder.recorder import Recorder

SOURCE = 'extern "C" __global__ void clamp(float *x, float most, int n)\n' \
         "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && x[i] > most) x[i] = most; }"
SIZE, BLOCK = 1 << 20, 256
GRID = SIZE // BLOCK


@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] += a * x[i]


@cuda.jit
def scale(x, a):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= a


@cuda.jit
def smooth(out, x):
    i = cuda.grid(1)
    if 0 < i < x.size - 1:
        out[i] = 0.25 * x[i - 1] + 0.5 * x[i] + 0.25 * x[i + 1]


class Session:
    """The cells of a notebook that works with graphs."""

    def __init__(self) -> None:
        self.device = Device()
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.x, self.y, self.z = (cuda.to_device(np.ones(SIZE, np.float32)) for _ in range(3))
        self.host = np.zeros(SIZE, np.float32)
        program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{self.device.arch}"))
        self.clamp = program.compile("cubin").get_kernel("clamp")
        self.step: Any = None

    def capture(self, out: Any, grid: int = GRID, rounds: int = 3) -> Any:
        """A step: a chain, two branches that join, and a body that runs on a condition."""
        builder = self.device.create_graph_builder().begin_building()
        for _ in range(rounds):
            axpy[grid, BLOCK, builder.stream](out, np.float32(0.5), self.x)
        left, right = builder.split(2)
        smooth[grid, BLOCK, left.stream](self.z, out)
        scale[grid // 2, BLOCK, right.stream](self.x, np.float32(1.0))
        builder = GraphBuilder.join(left, right)
        condition = builder.create_condition(default_value=1)
        body = builder.if_then(condition)
        body.begin_building()
        scale[grid, BLOCK, body.stream](out, np.float32(0.5))
        pointer = int(out.__cuda_array_interface__["data"][0])
        launch(body.stream, LaunchConfig(grid=grid, block=BLOCK), self.clamp, np.intp(pointer), np.float32(9),
               np.int32(SIZE))
        body.end_building()
        return builder.end_building()

    def eager(self) -> None:
        for _ in range(20):
            for _ in range(3):
                axpy[GRID, BLOCK, self.stream](self.y, np.float32(0.5), self.x)
            smooth[GRID, BLOCK, self.stream](self.z, self.y)
        self.stream.sync()

    def capture_and_replay(self) -> None:
        self.step = self.capture(self.y).complete()
        for _ in range(50):
            self.step.launch(self.stream)
        self.stream.sync()

    def rebuild(self) -> None:
        """What to avoid: the same graph is captured and instantiated for each step."""
        for _ in range(20):
            step = self.capture(self.y).complete()
            step.launch(self.stream)
            self.stream.sync()
            step.close()

    def update(self) -> None:
        """Other arrays through an update; another topology is refused."""
        self.step.update(self.capture(self.z))
        self.step.launch(self.stream)
        with contextlib.suppress(Exception):  # that the driver refuses it is what is recorded
            self.step.update(self.capture(self.y, rounds=4))
        self.capture(self.y, grid=GRID // 4).complete().launch(self.stream)
        self.stream.sync()

    def nodes(self) -> None:
        """A graph of nodes of one's own."""
        start = MemsetNode(self.z, 0)
        copy = MemcpyNode(self.y, self.x, [start])
        first = KernelNode[GRID, BLOCK](axpy, (self.y, np.float32(2), self.x), [copy])
        second = KernelNode[GRID, BLOCK](smooth, (self.z, self.y), [first])
        beside = KernelNode[GRID, BLOCK](scale, (self.x, np.float32(1)), [copy])
        with build([MemcpyNode(self.host, self.z, [second, beside])]) as graph:
            for _ in range(10):
                graph.launch(self.stream)
            self.stream.sync()


def main() -> int:
    """Make the recording and say how large it is."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    session = Session()
    recorder = Recorder("graphs").start()
    for number, (name, run) in enumerate((
            ("eager launches", session.eager), ("capture and replay", session.capture_and_replay),
            ("rebuilt each time", session.rebuild), ("updates", session.update),
            ("nodes of one's own", session.nodes)), 1):
        recorder.begin_cell(name, execution_count=number)
        run()
        recorder.end_cell()
    recording = recorder.stop()
    print(recording)
    if recording.is_dry_run:
        print("this is no GPU: the recording would say so and is no fixture", file=sys.stderr)
        return 1
    path = recording.save(Path(sys.argv[1]) / "graphs")
    print(f"{path}: {recording.arrow('graph_events').num_rows} events of graphs, {path.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
