"""Makes the recordings of lines of code of notebooks/recordings on a real GPU: a simulation, and a training step.

    python benchmarks/record_lines.py OUTDIR [simulation] [training]

Each is a session of cells in IPython, with its call paths.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from dataclasses import fields
from pathlib import Path

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

#: A file beside the notebook, which the simulation imports.
DIFFUSION = '''\
"""Heat that spreads over a plate."""

from numba import cuda

BLOCK = (16, 16)


@cuda.jit
def spread(out, plate, rate):
    i, j = cuda.grid(2)
    if 0 < i < plate.shape[0] - 1 and 0 < j < plate.shape[1] - 1:
        around = plate[i - 1, j] + plate[i + 1, j] + plate[i, j - 1] + plate[i, j + 1]
        out[i, j] = plate[i, j] + rate * (around - 4 * plate[i, j])


@cuda.jit
def heat(plate, sources):
    i, j = cuda.grid(2)
    if i < plate.shape[0] and j < plate.shape[1]:
        plate[i, j] += sources[i, j]


def grid(plate):
    return tuple((length + side - 1) // side for length, side in zip(plate.shape, BLOCK))


def step(now, then, rate):
    """One step of time, from one array into the other."""
    spread[grid(now), BLOCK](then, now, rate)
    return then, now


def hottest(plate):
    """The highest temperature: the whole plate is copied to the host to find it."""
    return float(plate.copy_to_host().max())
'''

SIMULATION = ["""\
import numpy as np
from numba import cuda

import diffusion

plate = np.zeros((1024, 1024), np.float32)
sources = np.zeros_like(plate)
sources[500:520, 500:520] = 1
""", """\
now, then = cuda.to_device(plate), cuda.to_device(plate)
history = []
for n in range(200):
    diffusion.heat[diffusion.grid(now), diffusion.BLOCK](now, sources)
    now, then = diffusion.step(now, then, np.float32(0.2))
    if n % 20 == 0:
        history.append(diffusion.hottest(now))
cuda.synchronize()
""", """\
warm = cuda.to_device(sources)
history = []
for n in range(200):
    diffusion.heat[diffusion.grid(now), diffusion.BLOCK](now, warm)
    now, then = diffusion.step(now, then, np.float32(0.2))
    if n % 20 == 0:
        history.append(diffusion.hottest(now))
cuda.synchronize()
"""]

TRAINING = ["""\
import torch
from torch import nn

torch.manual_seed(0)
data = torch.randn(40, 512, 256)
targets = torch.randn(40, 512, 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.widen = nn.Linear(256, 1024)
        self.mix = nn.Linear(1024, 1024)
        self.narrow = nn.Linear(1024, 1)

    def forward(self, x):
        x = torch.relu(self.widen(x))
        x = x + torch.relu(self.mix(x))
        return self.narrow(x)
""", """\
net = Net().cuda()
optimizer = torch.optim.AdamW(net.parameters())
losses = []


def train(data, targets):
    for x, y in zip(data, targets):
        x, y = x.cuda(), y.cuda()
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


train(data[:2], targets[:2])
""", """\
train(data, targets)
torch.cuda.synchronize()
"""]
SESSIONS = {"simulation": SIMULATION, "training": TRAINING}


def record(name: str, folder: Path) -> None:
    """Run one session in this process and save it."""
    from IPython.core.interactiveshell import InteractiveShell

    from kernelscope.recorder.options import RecordingOptions

    with tempfile.TemporaryDirectory() as place:
        Path(place, "diffusion.py").write_text(DIFFUSION)
        os.chdir(place)
        sys.path.insert(0, place)
        shell = InteractiveShell.instance()
        stacks = " --stacks" if "stacks" in {each.name for each in fields(RecordingOptions)} else ""
        run(shell, "%load_ext kernelscope", is_numbered=False)
        run(shell, f"%kernelscope on -q{stacks}", is_numbered=False)
        for cell in SESSIONS[name]:
            run(shell, cell)
        run(shell, "%kernelscope off", is_numbered=False)
        run(shell, f"%kernelscope save {folder / f'lines_{name}.kscope'}", is_numbered=False)
        os.chdir(folder)


def run(shell: object, cell: str, is_numbered: bool = True) -> None:
    """Run a cell without what it prints; raise what it raises."""
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        result = shell.run_cell(cell, store_history=is_numbered)  # type: ignore[attr-defined]
    if not result.success:
        print(said.getvalue(), file=sys.stderr)
        result.raise_error()


def main() -> int:
    """Record each session in a process of its own, and say what is in it."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if sys.argv[2:3] == ["--one"]:
        record(sys.argv[3], folder)
        return 0
    import kernelscope

    for name in sys.argv[2:] or SESSIONS:
        subprocess.run([sys.executable, __file__, str(folder), "--one", name], check=True)
        path = folder / f"lines_{name}.kscope"
        recording = kernelscope.load(path)
        activities = recording.activities
        print(f"{path}: {path.stat().st_size / 1e3:.0f} kB, {len(recording.launches)} launches, {len(activities)} "
              f"activities, of which {activities.line_id.isna().sum()} have no line")
        print(recording.by_line()[["file", "line", "function", "launches", "host_ns", "compile_ns", "gpu_ns", "wait_ns",
                                   "copied_bytes"]].to_string())
    return 0


if __name__ == "__main__":
    sys.exit(main())
