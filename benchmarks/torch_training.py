"""What recording adds to training steps in PyTorch, and what torch.profiler adds, in turn in one process, on a GPU.

Steps of a transformer encoder of four layers (512 wide, batch 16, 128 tokens), launched kernel by kernel. A round is
100 steps without and 100 with recording, in random order; start and stop are not counted. Kineto keeps CUPTI once
torch.profiler has run, so that what comes after it is recorded through it.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

import kernelscope

_STEPS = 100


class Training:
    """A model, its data and how to train it."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0)
        self.model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4)
        self.x, self.target = (torch.randn(16, 128, 512, device="cuda") for _ in range(2))
        self.launches = 0

    def run(self) -> float:
        """Train; return the seconds."""
        begun = time.perf_counter()
        for _ in range(_STEPS):
            self.optimizer.zero_grad()
            torch.nn.functional.mse_loss(self.model(self.x), self.target).backward()
            self.optimizer.step()
        torch.cuda.synchronize()
        return time.perf_counter() - begun

    def recorded(self) -> float:
        """Train while recording; return the seconds."""
        with kernelscope.record("steps") as recorded:
            took = self.run()
        self.launches = len(recorded.recording.launches)
        return took

    def profiled(self) -> float:
        """Train under torch.profiler; return the seconds."""
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
            return self.run()

    def compare(self, name: str, how: Callable[[], float], rounds: int) -> None:
        """Print what is added, with the 95 % bootstrap interval of the median."""
        how()
        pairs: list[tuple[float, float]] = []
        for _ in range(rounds):
            if random.random() < 0.5:
                bare, other = self.run(), how()
            else:
                other, bare = how(), self.run()
            pairs.append((bare, other - bare))
        base = statistics.median(bare for bare, _ in pairs)
        added = [each for _, each in pairs]
        spread = sorted(statistics.median(random.choices(added, k=len(added))) for _ in range(2000))
        low, middle, high = (each / base * 100 for each in (spread[50], statistics.median(added), spread[1949]))
        print(f"{name}: {base * 1e3:.1f} ms, {middle:+.1f} % ({low:+.1f} to {high:+.1f}); {self.launches} launches",
              flush=True)


def main() -> None:
    """Measure and print."""
    training = Training()
    training.run()
    training.compare("nothing, once more", training.run, 15)
    training.compare("recorded", training.recorded, 30)
    training.compare("torch.profiler", training.profiled, 4)
    training.compare("recorded through Kineto", training.recorded, 6)


if __name__ == "__main__":
    main()
