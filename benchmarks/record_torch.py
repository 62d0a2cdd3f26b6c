"""Makes the recordings of Triton and PyTorch of notebooks/recordings on a real GPU, with the frameworks' caches empty.

    python benchmarks/record_torch.py OUTDIR [SESSION ...]

Each is a session of cells in IPython: ``triton_compiles`` (with code), ``triton_autotune``, ``torch_compile``,
``torch_training`` (with operators), ``triton_torch_numba``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from record_lines import run

#: Files beside the notebook.
AXPY = '''\
import triton
import triton.language as tl


@triton.jit
def axpy(x, y, n, a, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(y + i, a * tl.load(x + i, inside) + tl.load(y + i, inside), inside)


@triton.jit(do_not_specialize=["n"])
def axpy_any_n(x, y, n, a, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(y + i, a * tl.load(x + i, inside) + tl.load(y + i, inside), inside)
'''

MATMUL = '''\
import numpy as np
import torch
import triton
import triton.language as tl


def time_five(call, quantiles):
    """Return quantiles of five calls, in ms; Triton's own benchmark makes thousands."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    call()
    times = []
    for _ in range(5):
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return np.quantile(times, quantiles).tolist()


@triton.autotune(
    [triton.Config({"ROWS": 32, "COLUMNS": 32, "DEPTH": 32}, num_warps=2, num_stages=2),
     triton.Config({"ROWS": 64, "COLUMNS": 64, "DEPTH": 64}, num_warps=4, num_stages=3),
     triton.Config({"ROWS": 128, "COLUMNS": 64, "DEPTH": 64}, num_warps=8, num_stages=3),
     triton.Config({"ROWS": 128, "COLUMNS": 256, "DEPTH": 128}, num_warps=8, num_stages=4)],
    key=["m", "n", "k"], do_bench=time_five)
@triton.jit
def matmul(a, b, c, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    depth = tl.arange(0, DEPTH)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, k, DEPTH):
        left = tl.load(a + row[:, None] * k + (start + depth)[None, :])
        right = tl.load(b + (start + depth)[:, None] * n + column[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + row[:, None] * n + column[None, :], total.to(tl.float16))


def multiply(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, device=a.device, dtype=a.dtype)
    matmul[lambda meta: (m // meta["ROWS"], n // meta["COLUMNS"])](a, b, c, m, n, k)
    return c
'''

MODELS = '''\
import torch
from torch import nn


@torch.compile
def scores(x):
    x = nn.functional.gelu(x) * 2
    if not torch.isfinite(x).all():
        raise ValueError("x has values that are not finite")
    return torch.softmax(x, dim=1)


class Predictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.widen = nn.Linear(256, 1024)
        self.narrow = nn.Linear(1024, 256)

    def forward(self, x):
        return self.narrow(torch.relu(self.widen(x)))


class Encoder(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
                                    for _ in range(layers))
        self.head = nn.Linear(256, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(dim=1))
'''
FILES = {"axpy.py": AXPY, "matmul.py": MATMUL, "models.py": MODELS}


@dataclass(frozen=True)
class Session:
    """What one process runs: cells before the recording, its options, and its cells."""

    before: str
    cells: tuple[str, ...]
    options: str = ""


SESSIONS = {
    "triton_compiles": Session("""\
import torch
import triton

from axpy import axpy, axpy_any_n

x, y = (torch.ones(4096, device="cuda") for _ in range(2))
triton.runtime.driver.active.get_current_device()  # Triton compiles what it needs for that
""", ("""\
for n in (4096, 4000, 4095, 4001, 1, 1):
    axpy[(4,)](x, y, n, 0.5, BLOCK=1024)
torch.cuda.synchronize()
""", """\
for n in (4096, 4000, 4095, 4001, 1, 1):
    axpy_any_n[(4,)](x, y, n, 0.5, BLOCK=1024)
torch.cuda.synchronize()
"""), "--code"),
    "triton_autotune": Session("""\
import torch
import triton

from matmul import multiply

a = torch.ones(2048, 1024, device="cuda", dtype=torch.float16)
b = torch.ones(1024, 512, device="cuda", dtype=torch.float16)
triton.runtime.driver.active.get_current_device()  # Triton compiles what it needs for that
""", ("""\
for _ in range(3):
    c = multiply(a[:1024], b)
torch.cuda.synchronize()
""", """\
for _ in range(3):
    c = multiply(a, b)
torch.cuda.synchronize()
""")),
    "torch_compile": Session("""\
import torch

from models import Predictor, scores

torch.manual_seed(0)
x = torch.randn(512, 256, device="cuda")
predictor = Predictor().cuda()
torch.cuda.synchronize()
""", ("""\
for rows in (128, 256, 512):
    scores(x[:rows])
torch.cuda.synchronize()
""", """\
predict = torch.compile(predictor, mode="reduce-overhead")
with torch.no_grad():
    for _ in range(5):
        predict(x)
    predictor.narrow.weight.data = predictor.narrow.weight * 0.9
    for _ in range(5):
        predict(x)
torch.cuda.synchronize()
""")),
    "torch_training": Session("""\
import torch

from models import Encoder

torch.manual_seed(0)
data, targets = torch.randn(10, 32, 64, 256), torch.randn(10, 32, 1)
model = Encoder().cuda()
optimizer = torch.optim.AdamW(model.parameters())


def train(data, targets):
    losses = []
    for x, y in zip(data, targets):
        x, y = x.cuda(), y.cuda()
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


train(data[:2], targets[:2])
torch.cuda.synchronize()
""", ("""\
losses = train(data, targets)
torch.cuda.synchronize()
""",), "--torch-ops"),
    "triton_torch_numba": Session("""\
import numpy as np
import torch
from numba import cuda

from axpy import axpy


@cuda.jit
def clip(values, limit):
    i = cuda.grid(1)
    if i < values.size:
        values[i] = min(values[i], limit)


x, y = (torch.ones(4096, device="cuda") for _ in range(2))
weights = torch.randn(64, 64, device="cuda") / 8
torch.cuda.synchronize()
""", ("""\
for _ in range(10):
    axpy[(4,)](x, y, 4096, 0.5, BLOCK=1024)
    y = torch.nn.functional.gelu(y.view(64, 64) @ weights).flatten()
    clip[16, 256](y, np.float32(2))
torch.cuda.synchronize()
""",)),
}


def record(name: str, folder: Path) -> None:
    """Run one session in this process and save it."""
    from IPython.core.interactiveshell import InteractiveShell

    session = SESSIONS[name]
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as caches:
        for file, text in FILES.items():
            Path(place, file).write_text(text)
        os.environ.update(TRITON_CACHE_DIR=f"{caches}/triton", TORCHINDUCTOR_CACHE_DIR=f"{caches}/inductor")
        os.chdir(place)
        sys.path.insert(0, place)
        shell = InteractiveShell.instance()
        run(shell, "%load_ext kernelscope", is_numbered=False)
        run(shell, session.before)
        run(shell, f"%kernelscope on -q {session.options}", is_numbered=False)
        for cell in session.cells:
            run(shell, cell)
        run(shell, "%kernelscope off", is_numbered=False)
        run(shell, f"%kernelscope save {folder / f'{name}.kscope'}", is_numbered=False)
        os.chdir(folder)


def main() -> int:
    """Record each session in a process of its own, and show its card."""
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
        path = folder / f"{name}.kscope"
        recording = kernelscope.load(path)
        print(f"{path}: {path.stat().st_size / 1e3:.0f} kB\n{recording.summary()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
