"""Every kernel that ran is in a recording once: counted by CUPTI alone, in a process without KernelScope."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]

#: Each calls its framework a few times; what a library does once, such as filling memory, happens in all of them.
PARTS = {
    "torch": """
import torch
x = torch.ones(1 << 16, device="cuda")
def torch_part():
    y = torch.nn.functional.gelu(x * 2)
    for _ in range(7):
        y.add_(x)
    (x.reshape(256, 256) @ x.reshape(256, 256)).sum()
""",
    "numba": """
from numba import cuda
import numpy as np
@cuda.jit
def scale(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 2
held = cuda.to_device(np.ones(1 << 12, np.float32))
def numba_part():
    for _ in range(9):
        scale[16, 256](held)
""",
    "cupy": """
import cupy
array = cupy.ones(1 << 12, cupy.float32)
def cupy_part():
    b = array * 2 + 1
    b.sum()
    cupy.RawKernel('extern "C" __global__ void raw(float *a) { a[threadIdx.x] = 1; }', "raw")((1,), (32,), (array,))
""",
    "triton": """
import torch, triton, triton.language as tl
@triton.jit
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, at < n) + 1, at < n)
here, there = torch.ones(4096, device="cuda"), torch.empty(4096, device="cuda")
def triton_part():
    for _ in range(6):
        add[(4,)](here, there, 4096, BLOCK=1024)
""",
    "graph": """
import torch
t = torch.ones(256, device="cuda")
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    t.add_(1); torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        t.add_(1); t.mul_(2)
def graph_part():
    for _ in range(5):
        graph.replay()
    t.add_(1)
""",
    "jax": """
import jax, jax.numpy as jnp
from jax import jit
values = jnp.ones(4096)
step = jit(lambda v: jnp.sin(v) * 2 + v)
step(values).block_until_ready()
def jax_part():
    v = values
    for _ in range(4):
        v = step(v)
    v.block_until_ready()
""",
}

MAIN = """
import ctypes, json, os, sys
PARTS = {parts}
def parts():
    for part in PARTS:
        globals()[part + "_part"]()
    ctypes.CDLL("libcuda.so.1").cuCtxSynchronize()
parts()  # what happens once
ctypes.CDLL("libcuda.so.1").cuCtxSynchronize()
{body}
"""
#: With KernelScope: each part is a recorded cell of one recording. Without: as often.
RECORDED = """
import kernelscope
with kernelscope.record("parts") as recorded:
    parts()
r = recorded.recording
kernels = r.activities[r.activities.kind == "kernel"]
alone = kernels[kernels.cupti_graph_id.isna()]
print(json.dumps({"names": kernels.entry_name.value_counts().to_dict(), "launches": len(r.launches),
                  "alone": len(alone), "with_launch": int(alone.launch_id.notna().sum()),
                  "distinct": int(alone.launch_id.nunique()),
                  "card": r.summary(), "frameworks": sorted(set(r.dispatchers.framework))}))
"""


def ran(parts: tuple[str, ...], body: str, environment: dict[str, str]) -> str:
    code = "".join(PARTS[part] for part in parts) + MAIN.replace("{parts}", repr(parts)).replace("{body}", body)
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True,
                          text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that counts kernels."""
    library = tmp_path_factory.mktemp("counter") / "count_kernels.so"
    cupti = Path("/usr/local/cuda/extras/CUPTI")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", f"-I{cupti}/include", "-I/usr/local/cuda/include",
                    str(Path(__file__).with_name("count_kernels.c")), "-o", str(library), f"-L{cupti}/lib64", "-lcupti",
                    f"-Wl,-rpath,{cupti}/lib64"], check=True)
    return library


def counted(parts: tuple[str, ...], body: str, counter: Path, file: Path) -> Counter[str]:
    ran(parts, body, {"CUDA_INJECTION64_PATH": str(counter), "KERNELS": str(file)})
    rows = [line.split(" ", 1) for line in file.read_text().splitlines()]
    return Counter({name: int(number) for number, name in rows})


@pytest.mark.parametrize("parts", [("torch", "numba"), ("torch", "cupy", "numba"), ("torch", "triton", "graph"),
                                   ("jax",), ("cupy", "jax")], ids="-".join)
def test_kernels_are_those_that_cupti_counts(parts: tuple[str, ...], counter: Path, tmp_path: Path) -> None:
    for part in parts:
        module = {"graph": "torch"}.get(part, part)
        assert importlib.util.find_spec(module), f"{module} is not installed"
    once, twice = (counted(parts, body, counter, tmp_path / f"{at}.txt") for at, body in enumerate(("", "parts()")))
    found = json.loads(ran(parts, RECORDED, {}).splitlines()[-1])
    assert Counter(found["names"]) == twice - once and twice - once
    assert found["with_launch"] == found["alone"] == found["distinct"] == found["launches"]
    if "triton" not in parts:
        assert "driver" in found["frameworks"]
    print(parts, sum((twice - once).values()), "kernels,", found["launches"], "launches")
