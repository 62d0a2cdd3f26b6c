"""What recording adds to training steps in PyTorch, and what torch.profiler adds, in turn in one process, on a GPU.

Two models: a transformer encoder of four layers (512 wide, batch 16, 128 tokens), which the GPU computes in the time
that it takes to launch its kernels one by one, and ResNet-18 (batch 64, 224 by 224), whose kernels take longer. A round
is 100 steps without and 100 with recording, in random order; start and stop are not counted. Kineto keeps CUPTI
once torch.profiler has run, so that what comes after it is recorded through it.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

import kernelscope

_STEPS = 100


class Block(torch.nn.Module):
    """A residual block of ResNet-18."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        layers = torch.nn
        self.main = layers.Sequential(
            layers.Conv2d(before, width, 3, stride, 1, bias=False), layers.BatchNorm2d(width), layers.ReLU(True),
            layers.Conv2d(width, width, 3, 1, 1, bias=False), layers.BatchNorm2d(width))
        self.aside = layers.Identity() if stride == 1 else layers.Sequential(
            layers.Conv2d(before, width, 1, stride, bias=False), layers.BatchNorm2d(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the next block takes."""
        return torch.relu(self.main(x) + self.aside(x))


def resnet18() -> torch.nn.Module:
    """Return the network of He et al., Deep Residual Learning for Image Recognition, 2015, table 1."""
    layers = torch.nn
    widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
    blocks = [Block(before, width, 1 if before == width else 2) for before, width in itertools.pairwise(widths)]
    return layers.Sequential(
        layers.Conv2d(3, 64, 7, 2, 3, bias=False), layers.BatchNorm2d(64), layers.ReLU(True), layers.MaxPool2d(3, 2, 1),
        *blocks, layers.AdaptiveAvgPool2d(1), layers.Flatten(), layers.Linear(512, 1000))


def transformer() -> torch.nn.Module:
    """Return an encoder of four layers."""
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0)
    return torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)


class Training:
    """A model, its data and how to train it."""

    def __init__(self, model: torch.nn.Module, *shape: int) -> None:
        self.model = model.cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4)
        self.x = torch.randn(*shape, device="cuda")
        self.target = torch.randn_like(self.model(self.x).detach())
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
    torch.manual_seed(0)
    kinds = {"transformer": Training(transformer(), 16, 128, 512), "ResNet-18": Training(resnet18(), 64, 3, 224, 224)}
    for name, training in kinds.items():
        training.run()
        training.compare(f"{name}: nothing, once more", training.run, 8)
        training.compare(f"{name}: recorded", training.recorded, 20 if name == "transformer" else 12)
    kinds["transformer"].compare("transformer: torch.profiler", kinds["transformer"].profiled, 4)
    kinds["transformer"].compare("transformer: recorded through Kineto", kinds["transformer"].recorded, 6)


if __name__ == "__main__":
    main()
