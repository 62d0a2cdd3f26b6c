"""Makes the recordings of many processes of notebooks/recordings on a real GPU: a training run under torchrun.

    python benchmarks/record_workers.py OUTDIR [--ranks N]

Each rank records itself, as `KERNELSCOPE_RECORD` in its environment tells it. Where there are fewer GPUs than ranks,
the ranks share them and reduce gradients by gloo, through the host, because NCCL wants a GPU for each rank; which it
was is printed. The last rank gets twice the work of the others.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TRAIN = '''\
"""Training steps on data that a kernel of our own makes noisy; the last rank has twice as much of it."""

import os

import numpy as np
import torch
import torch.distributed as dist
from numba import cuda
from torch import nn

STEPS = 30


@cuda.jit
def disturb(samples, noise, seed):
    i = cuda.grid(1)
    if i < samples.size:
        samples[i] += noise * (((i * 1103515245 + seed) & 65535) / 65536 - 0.5)


def net():
    return nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1))


def share_gradients(model, ranks):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= ranks


def main():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    gpus = torch.cuda.device_count()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % gpus)
    dist.init_process_group("nccl" if gpus >= ranks else "gloo")
    torch.manual_seed(0)
    model = net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = 4096 * (2 if rank == ranks - 1 else 1)
    for step in range(STEPS):
        x, y = torch.randn(batch, 256, device="cuda"), torch.randn(batch, 1, device="cuda")
        disturb[(x.numel() + 255) // 256, 256](cuda.as_cuda_array(x.view(-1)), np.float32(0.1), step)
        cuda.synchronize()
        for _ in range(4):
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
        share_gradients(model, ranks)
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    if rank == 0:
        print(f"{ranks} ranks, {gpus} GPU(s), {dist.get_backend()}, loss {loss.item():.3f}")
    dist.destroy_process_group()


main()
'''


def main() -> int:
    """Record the run, merge what its ranks wrote, and say what is in it."""
    parser = argparse.ArgumentParser(description="Record a training run under torchrun.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=4)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = (options.folder / "workers_training.kscope").resolve()
    import kernelscope

    with tempfile.TemporaryDirectory() as place:
        Path(place, "train.py").write_text(TRAIN)
        environment = {**os.environ, "KERNELSCOPE_RECORD": str(Path(place, "run")), "OMP_NUM_THREADS": "2",
                       "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"}
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                        str(options.ranks), "train.py"], cwd=place, env=environment, check=True, timeout=150)
        for each in sorted(Path(place, "run").iterdir()):
            print(f"{each.name}: {each.stat().st_size / 1e3:.0f} kB")
        subprocess.run([sys.executable, "-m", "kernelscope", "merge", str(Path(place, "run")), "-o", str(path)],
                       check=True, timeout=100)
    recording = kernelscope.load(path)
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB, {len(recording.launches)} launches, "
          f"{len(recording.activities)} activities")
    print(recording.by_process().to_string())
    print(recording.processes.T.to_string())
    return 0


if __name__ == "__main__":
    sys.exit(main())
