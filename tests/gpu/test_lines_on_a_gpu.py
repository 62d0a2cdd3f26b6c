"""Whose line the GPU's work and waits are of, for each framework: launches, copies, waits, graphs, a training step."""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ways_to_launch import (
    Lines,
    lines_of,
    named_lines,
    names_of_numba,
    program_of,
    project,
    record_each,
    ways_of,
    without_of,
)

import kernelscope

pytestmark = pytest.mark.gpu
pytest.importorskip("numba.cuda")

LAUNCHING = ("numba", "cupy", "torch")

# Programs by framework and name. A comment at a line's end names the kinds of activities that the line makes; ``work``:
# any of them; ``maybe``: any of them, or none. No other line, and no line that is not known, may make any.
WORK = {
    "numba": {
        "to a device": "cuda.to_device(h)  # memcpy",
        "to a device, over lines": "y = cuda.to_device(  # memcpy\n    h)",
        "to the host": "x.copy_to_host()  # memcpy",
        "to the host, into an array": "x.copy_to_host(h.copy())  # memcpy",
        "between devices' arrays": "y = cuda.device_array_like(x)\ny.copy_to_device(x)  # memcpy",
        "reading an item": "float(x[0])  # memcpy",
        "writing an item": "x[0] = 3  # kernel",
        "a host array": "k[1, 32](h)  # kernel memcpy",
        "a memset": "from numba.cuda.cudadrv.driver import device_memset\ndevice_memset(x, 0, 16)  # memset",
        "a wait for the device": "k[1, 32](x)  # kernel\ncuda.synchronize()  # sync",
        "a wait in a function": "def wait():\n    cuda.synchronize()  # sync\nfor _ in range(3):\n    wait()",
        "a wait for a stream": "s = cuda.stream()\nk[1, 32, s](x)  # kernel\ns.synchronize()  # sync",
        "a stream that is waited for at the end":
            "s = cuda.stream()\nwith s.auto_synchronize():  # sync\n    k[1, 32, s](x)  # kernel",
        "a wait for an event": "e = cuda.event()\nk[1, 32](x)  # kernel\ne.record()\ne.synchronize()  # sync",
        "a copy in a thread": """\
import threading
def load():
    cuda.to_device(h)  # memcpy
t = threading.Thread(target=load)
t.start()
k[1, 32](x)  # kernel
t.join()""",
        "a pool of streams": """\
from concurrent.futures import ThreadPoolExecutor
def work(n):
    s = cuda.stream()
    y = cuda.to_device(h, stream=s)  # memcpy
    k[1, 32, s](y)  # kernel
    s.synchronize()  # sync
with ThreadPoolExecutor(4) as pool:
    list(pool.map(work, range(8)))""",
    },
    "cuda.core": {
        "a launch": "launch(s, config, kernel, buffer)  # kernel\ns.sync()  # sync",
        "a launch over lines": "launch(  # kernel\n    s, config,\n    kernel, buffer)\ns.sync()  # sync",
        "a copy": "other.copy_from(buffer, stream=s)  # memcpy\ns.sync()  # sync",
        "a fill": "buffer.fill(0, stream=s)  # memset\ns.sync()  # sync",
        "a wait for an event": "launch(s, config, kernel, buffer)  # kernel\ns.record().sync()  # sync",
        "a graph": """\
builder = device.create_graph_builder().begin_building()
launch(builder, config, kernel, buffer)
launch(builder, config, kernel, buffer)
graph = builder.end_building().complete()
for _ in range(3):
    graph.launch(s)  # kernel
s.sync()  # sync""",
        "a graph of numba's kernels": """\
builder = device.create_graph_builder().begin_building()
k[1, 32, builder.stream](x)
graph = builder.end_building().complete()
def replay():
    graph.launch(s)  # kernel
replay()
s.sync()  # sync""",
    },
    "cupy": {
        "a ufunc": "cp.add(x, 1, x)  # kernel",
        "an expression": "y = x * 2 + 1  # kernel",
        "an expression over lines": "y = (x  # kernel\n     * 2\n     + 1)",
        "an argument's expression": "y = cp.add(  # kernel\n    x * 2,  # kernel\n    x)",
        "in place": "x += 1  # kernel",
        "a raw kernel": "raw((1,), (4,), (x,))  # kernel",
        "a raw kernel over lines": "raw(  # kernel\n    (1,), (4,),\n    (x,))",
        "a function of a module":
            'f = module.get_function("raw")\nfor _ in range(2):\n    f((1,), (4,), (x,))  # kernel',
        "an elementwise kernel": "elementwise(x)  # kernel",
        "a reduction": "x.sum()  # kernel",
        "a fused function": "@cp.fuse()\ndef f(v):\n    return v * 2 + 1\nf(x)  # kernel",
        "a kernel in Python": """\
from cupyx import jit
@jit.rawkernel()
def doubled(v):
    i = jit.threadIdx.x
    v[i] = v[i] * 2
doubled((1,), (4,), (x,))  # kernel""",
        "cuBLAS": "m @ m  # kernel",
        "a sort": "cp.sort(x)  # kernel",
        "an index": "x[x > 0]  # kernel",
        "random numbers": "cp.random.random(4)  # kernel",
        "zeros": "cp.zeros(1024)  # work",
        "a memset": "x.data.memset(0, 16)  # memset",
        "to the device": "cp.asarray(h)  # memcpy",
        "to the host": "x.get()  # memcpy sync",
        "to the host, as NumPy's": "cp.asnumpy(x)  # memcpy",
        "a number": "float(x.max())  # kernel memcpy",
        "a condition": "if x.any():  # kernel memcpy\n    pass",
        "text": "repr(x)  # memcpy",
        "a wait for the device": "x += 1  # kernel\ncp.cuda.Device().synchronize()  # sync",
        "a wait for a stream": "s = cp.cuda.Stream()\nwith s:\n    cp.negative(x)  # kernel\ns.synchronize()  # sync",
        "a wait for the default stream": "x += 1  # kernel\ncp.cuda.Stream.null.synchronize()  # sync",
        "a wait for an event": "e = cp.cuda.Event()\nx += 1  # kernel\ne.record()\ne.synchronize()  # sync",
        "a wait by the runtime": "x += 1  # kernel\ncp.cuda.runtime.deviceSynchronize()  # sync",
        "a graph": """\
s = cp.cuda.Stream(non_blocking=True)
with s:
    s.begin_capture()
    cp.add(x, 1, x)
    graph = s.end_capture()
for _ in range(2):
    graph.launch(s)  # kernel
s.synchronize()  # sync""",
    },
    "torch": {
        "in place": "t.add_(1)  # kernel",
        "an output": "torch.add(t, t, out=t)  # kernel",
        "an expression over lines": "y = (t  # kernel\n     * 2\n     + 1)",
        "an argument's expression": "y = torch.add(  # kernel\n    t * 2,  # kernel\n    t)",
        "a function": "y = torch.nn.functional.gelu(t)  # kernel",
        "a module": "y = linear(b)  # kernel",
        "a module of modules": "y = layers(b)  # kernel",
        "cuBLAS": "m @ m  # kernel",
        "ones": 'torch.ones(8, device="cuda")  # kernel',
        "a sum of many": "big.sum()  # kernel memset",
        "to the device": 'c.to("cuda")  # memcpy',
        "from pinned memory": 'pinned.to("cuda", non_blocking=True)  # memcpy',
        "to the host": "t.cpu()  # memcpy sync",
        "a copy into a tensor": "t.copy_(c)  # memcpy",
        "a copy on the device": "u = t.clone()  # memcpy",
        "a number": "t.sum().item()  # kernel memcpy sync",
        "a list": "t.tolist()  # memcpy",
        "a condition": "if t.any():  # kernel memcpy sync\n    pass",
        "a condition over lines": "if (t  # maybe\n        .any()):  # maybe\n    pass",
        "text": "repr(t)  # kernel memcpy",
        "what is not zero": "torch.nonzero(t)  # kernel memcpy",
        "a wait for the device": "t.add_(1)  # kernel\ntorch.cuda.synchronize()  # sync",
        "a wait for a stream": """\
s = torch.cuda.Stream()
with torch.cuda.stream(s):
    t.add_(1)  # kernel
s.synchronize()  # sync""",
        "a wait for an event": "e = torch.cuda.Event()\nt.add_(1)  # kernel\ne.record()\ne.synchronize()  # sync",
        "a graph": """\
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):  # maybe
    y = t * 2
    y += 1
for _ in range(2):
    graph.replay()  # kernel
torch.cuda.synchronize()  # sync""",
        "a training step": """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(64, 64)
        self.two = torch.nn.Linear(64, 1)
    def forward(self, v):
        v = torch.relu(self.one(v))  # kernel
        return self.two(v)  # kernel
net = Net().cuda()  # memcpy
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = net(b).square().mean()  # kernel
    loss.backward()  # kernel
    optimizer.step()  # kernel
    optimizer.zero_grad()
loss.item()  # memcpy sync""",
        "Adam and a clipped gradient": """\
net = torch.nn.Linear(64, 1).cuda()  # memcpy
optimizer = torch.optim.Adam(net.parameters())
loss = torch.nn.functional.mse_loss(net(b), torch.ones(32, 1, device="cuda"))  # kernel
loss.backward()  # kernel
torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # kernel
optimizer.step()  # kernel""",
        "gradients in a function": """\
def gradients(loss):
    return torch.autograd.grad(  # kernel
        loss, [v])
v = torch.ones(8, device="cuda", requires_grad=True)  # kernel
gradients((v * v).sum())  # kernel""",
        "one's own backward": """\
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        return v * 2  # kernel
    @staticmethod
    def backward(ctx, g):
        return g * 2  # kernel
v = torch.ones(8, device="cuda", requires_grad=True)  # kernel
loss = Twice.apply(v).sum()  # kernel
loss.backward()  # kernel""",
        "a gradient's hook": """\
v = torch.ones(8, device="cuda", requires_grad=True)  # kernel
v.register_hook(lambda g: g * 2)  # kernel
loss = (v * v).sum()  # kernel
loss.backward()  # kernel""",
        "a module's hook": """\
def after(module, given, made):
    return made * 2  # kernel
handle = linear.register_forward_hook(after)
linear(b)  # kernel
handle.remove()""",
        "recomputed in backward": """\
from torch.utils.checkpoint import checkpoint
def block(v):
    return torch.tanh(v)  # kernel
v = torch.ones(8, device="cuda", requires_grad=True)  # kernel
loss = checkpoint(block, v, use_reentrant=False).sum()  # kernel
loss.backward()  # kernel""",
        "a thread that loads": """\
import queue, threading
batches = queue.Queue(2)
def load():
    for _ in range(4):
        batches.put(c.to("cuda"))  # memcpy
loader = threading.Thread(target=load)
loader.start()
for _ in range(4):
    batch = batches.get()
    batch.add_(1)  # kernel
loader.join()""",
        "a data loader": """\
for batch in torch.utils.data.DataLoader(c, batch_size=256, pin_memory=True):  # maybe
    batch.cuda(non_blocking=True)  # memcpy""",
        "without gradients": "@torch.no_grad()\ndef f():\n    return linear(b)  # kernel\nf()",
        "autocast": """\
with torch.autocast("cuda", torch.bfloat16):
    y = b @ m  # kernel""",
        "functional transforms": "torch.func.vmap(lambda v: v * 2)(m)  # kernel",
        "data of NumPy": "import numpy\ntorch.from_numpy(numpy.ones(8)).cuda()  # memcpy",
    },
    "torch.compile": {
        # What is compiled belongs to several lines of the function: it has one of them, or that of the call.
        "a function": "def f(v):  # maybe\n    v = v * 2  # maybe\n    return v.sin() + 1  # maybe\n"
                      "g = torch.compile(f)\nfor _ in range(2):\n    g(t)  # maybe",
        "a decorated function": "@torch.compile  # maybe\ndef f(v):  # maybe\n    return (v * 3).cos()  # maybe\n"
                                "f(t)  # maybe",
    },
    "triton": {
        "a launch": """\
@triton.jit
def double(p, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(p + i, tl.load(p + i, mask=i < n) * 2, mask=i < n)
for _ in range(2):
    double[(1,)](  # kernel
        t, 1024, BLOCK=1024)""",
    },
    "jax": {
        # JAX launches from threads of its own as well: what they launch has no line.
        "a compiled function": "f = jax.jit(lambda v: v * 2 + 1)\ny = f(j)  # maybe\ny.block_until_ready()  # maybe",
        "operations": "y = j * 2  # maybe\ny = (y + 1).sum()  # maybe\nfloat(y)  # maybe",
        "a gradient": "g = jax.grad(lambda v: (v * v).sum())  # maybe\nfloat(g(j)[0])  # maybe",
        "to the device": "jax.device_put(h).block_until_ready()  # maybe",
    },
}
MAY_HAVE_NONE = ("jax",)


def _names_of_numba() -> dict[str, Any]:
    return {**names_of_numba(), "h": np.ones(4, np.float32)}


def _names_of_cuda_core() -> dict[str, Any]:
    core = pytest.importorskip("cuda.core")
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    text = 'extern "C" __global__ void step(float *v) { v[threadIdx.x] *= 2; }'
    program = core.Program(text, "c++", core.ProgramOptions(arch=f"sm_{device.arch}"))
    kernel = program.compile("cubin").get_kernel("step")
    buffer, other = (device.allocate(64, stream=stream) for _ in range(2))
    return {**names_of_numba(), "device": device, "s": stream, "launch": core.launch, "kernel": kernel,
            "config": core.LaunchConfig(grid=1, block=16), "buffer": buffer, "other": other}


def _names_of_cupy() -> dict[str, Any]:
    cp = pytest.importorskip("cupy")
    text = 'extern "C" __global__ void raw(float* x) { x[threadIdx.x] *= 2; }'
    return {"cp": cp, "k": cp.negative, "x": cp.ones(4, cp.float32), "m": cp.ones((64, 64), cp.float32),
            "h": np.ones(4, np.float32), "raw": cp.RawKernel(text, "raw"), "module": cp.RawModule(code=text),
            "elementwise": cp.ElementwiseKernel("float32 a", "float32 b", "b = a * 3", "thrice")}


def _names_of_torch() -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    linear = torch.nn.Linear(64, 64).cuda()
    names = {"torch": torch, "k": torch.relu_, "x": torch.ones(4, device="cuda"), "t": torch.ones(1024, device="cuda"),
             "m": torch.ones(64, 64, device="cuda"), "b": torch.ones(32, 64, device="cuda"), "c": torch.ones(1024),
             "big": torch.ones(1 << 20, device="cuda"), "pinned": torch.ones(1024).pin_memory(), "linear": linear,
             "layers": torch.nn.Sequential(linear, torch.nn.ReLU(), linear)}
    torch.relu_(names["x"])
    return names


def _names_of_triton() -> dict[str, Any]:
    triton = pytest.importorskip("triton")
    return {**_names_of_torch(), "triton": triton, "tl": pytest.importorskip("triton.language")}


def _names_of_jax() -> dict[str, Any]:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    return {"jax": jax, "j": jax.numpy.ones(1024), "h": np.ones(1024, np.float32)}


NAMES: dict[str, Callable[[], dict[str, Any]]] = {
    "numba": _names_of_numba, "cuda.core": _names_of_cuda_core, "cupy": _names_of_cupy, "torch": _names_of_torch,
    "torch.compile": _names_of_torch, "triton": _names_of_triton, "jax": _names_of_jax,
}


def names_of(framework: str) -> dict[str, Any]:
    """What programs of a framework work with; the test is skipped where it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs, as they are imported
        return NAMES[framework]()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
        with project(tmp_path_factory.mktemp("lines")) as folder:
            yield folder


@pytest.fixture(scope="module", params=LAUNCHING)
def framework(request: pytest.FixtureRequest) -> str:
    return request.param


class Recorded:
    """What each program of a framework made, or how it failed; recorded once for all tests."""

    def __init__(self, folder: Path, programs_of: Callable[[str], dict[str, str]], is_warm: bool) -> None:
        self._folder, self._programs_of, self._is_warm = folder, programs_of, is_warm
        self._found: dict[str, tuple[dict[str, kernelscope.Recording], dict[str, Exception]]] = {}

    def of(self, framework: str, way: str) -> kernelscope.Recording:
        if framework not in self._found:
            names, programs = names_of(framework), self._programs_of(framework)
            if self._is_warm:  # what is compiled, loaded and allocated at first is another test's
                record_each(programs, self._folder, names, {}, gpu="none")
            failed: dict[str, Exception] = {}
            self._found[framework] = record_each(programs, self._folder, names, failed), failed
        recordings, failed = self._found[framework]
        problem = failed.get(way)
        if isinstance(problem, ModuleNotFoundError) and not (problem.name or "").startswith("kernelscope"):
            pytest.skip(f"{way}: {problem}")  # a part of a framework that this machine does not have
        if problem is not None:
            raise problem
        return recordings[way]


@pytest.fixture(scope="module")
def launched(folder: Path) -> Recorded:
    return Recorded(folder, lambda framework: ways_of(framework) | without_of(framework), is_warm=False)


@pytest.fixture(scope="module")
def worked(folder: Path) -> Recorded:
    return Recorded(folder, WORK.__getitem__, is_warm=True)


@pytest.mark.parametrize(("framework", "way"), [(name, way) for name in LAUNCHING for way in ways_of(name)])
def test_a_kernel_has_the_line_that_a_person_would_name(
        framework: str, way: str, launched: Recorded, folder: Path) -> None:
    recording = launched.of(framework, way)
    expected = named_lines(folder, ways_of(framework)[way])
    assert lines_of(recording, "activities", "kernel") == expected
    if framework == "numba":
        assert lines_of(recording, "launches") == expected


@pytest.mark.parametrize(("framework", "way"), [(name, way) for name in LAUNCHING for way in without_of(name)])
def test_a_kernel_that_no_code_of_the_users_launched_has_no_line(
        framework: str, way: str, launched: Recorded) -> None:
    assert lines_of(launched.of(framework, way), "activities", "kernel") == {("", 0)}


@pytest.mark.parametrize(("framework", "way"), [(name, way) for name, ways in WORK.items() for way in ways])
def test_work_and_waits_have_the_line_that_a_person_would_name(
        framework: str, way: str, worked: Recorded, folder: Path) -> None:
    recording = worked.of(framework, way)
    path = program_of(folder, WORK[framework][way])
    marks = marks_of(path)
    found = {kind: lines_of(recording, "activities", kind) for kind in ("kernel", "memcpy", "memset", "sync")}
    everywhere: Lines = set().union(*found.values())
    assert everywhere, "nothing was recorded"
    named: Lines = {(str(path), line) for line in marks} | ({("", 0)} if framework in MAY_HAVE_NONE else set())
    assert everywhere - named == set(), found
    for line, kinds in marks.items():
        for kind in kinds - {"maybe", "work"}:
            assert (str(path), line) in found[kind], (line, kind, found)
        assert "work" not in kinds or (str(path), line) in everywhere


def marks_of(path: Path) -> dict[int, set[str]]:
    """What each marked line of a program makes."""
    marked = re.compile(r"# ((?:kernel|memcpy|memset|sync|work|maybe| )+)$")
    found = ((number, marked.search(text)) for number, text in enumerate(path.read_text().splitlines(), 1))
    return {number: set(mark[1].split()) for number, mark in found if mark}


def long_kernel(framework: str) -> tuple[str, dict[str, Any]]:
    """A program of which the second line launches a kernel of some milliseconds, and the fourth waits for it."""
    names = names_of(framework)
    if framework == "torch":
        return "\ntorch.cuda._sleep(10_000_000)\n\ntorch.cuda.synchronize()", names
    if framework == "cupy":
        text = 'extern "C" __global__ void spin(float* x) { for (long long t = clock64(); clock64() - t < 10000000;); }'
        names["spin"] = names["cp"].RawKernel(text, "spin")
        names["spin"]((1,), (1,), (names["x"],))
        return "\nspin((1,), (1,), (x,))\n\ncp.cuda.Device().synchronize()", names

    @names["cuda"].jit
    def spin(x: Any) -> None:
        value = 1.0
        for _ in range(4_000_000):
            value = value * 1.0000001 + 1e-7
        x[0] = value

    names["spin"] = spin
    spin[1, 1](names["x"])
    return "\nspin[1, 1](x)\n\ncuda.synchronize()", names


def test_the_gpus_time_is_the_launching_lines_and_the_wait_the_waiting_lines(framework: str, folder: Path) -> None:
    program, names = long_kernel(framework)
    recording = record_each({"cell": program}, folder, names)["cell"]
    rows = recording.by_line().set_index("line")
    assert rows.index.tolist() == [4, 2], "the wait took longest"
    assert rows.gpu_ns.tolist()[0] == 0 and rows.gpu_ns.tolist()[1] > 3e6
    assert rows.wait_ns.tolist()[0] > 0.8 * rows.gpu_ns.tolist()[1] and rows.wait_ns.tolist()[1] == 0


def test_lines_of_the_gpus_work_add_up(folder: Path) -> None:
    recording = record_each({"cell": WORK["torch"]["a training step"]}, folder, names_of("torch"))["cell"]
    rows, activities = recording.by_line(), recording.activities
    took = activities.end_ns - activities.start_ns
    is_wait = activities.kind == "sync"
    assert rows.gpu_ns.sum() == took[~is_wait].sum()
    assert rows.wait_ns.sum() == took[is_wait].sum()
    assert rows.copied_bytes.sum() == activities.size_bytes[activities.kind == "memcpy"].sum()


def test_no_line_of_a_long_loop_is_taken_for_another(folder: Path) -> None:
    """Lines change between all launches, in two threads at once."""
    program = """\
import threading
def one():
    for n in range(6_000):
        a.add_(1)
        if n % 3 == 0:
            a.neg_()
def two():
    for n in range(7_000):
        b.add_(1)
threads = [threading.Thread(target=each) for each in (one, two)]
for each in threads:
    each.start()
for each in threads:
    each.join()"""
    torch = pytest.importorskip("torch")
    a, b = torch.ones(8, device="cuda"), torch.ones(8, device="cuda")
    a.add_(1), a.neg_()
    recording = record_each({"cell": program}, folder, {"a": a, "b": b})["cell"]
    lines = [*recording.rows("lines"), {"line": None, "function": None}]  # the last for no line
    kernels = [row for row in recording.rows("activities") if row["kind"] == "kernel"]
    made = Counter((row["thread_id"], row["line_id"]) for row in kernels)
    by_line = {lines[-1 if line is None else line]["line"]: count for (_, line), count in made.items()}
    assert by_line == {4: 6_000, 6: 2_000, 9: 7_000}
    assert len(made) == 3 and len({thread for thread, _ in made}) == 2


def test_without_lines_there_are_none(framework: str, folder: Path) -> None:
    names = names_of(framework)
    way = "a call"
    recording = record_each({way: ways_of(framework)[way]}, folder, names, lines=False)[way]
    assert lines_of(recording, "activities", "kernel") == {("", 0)}
    assert recording.by_line().empty


def test_work_while_another_tool_watches_lines(folder: Path) -> None:
    """Coverage and debuggers trace lines of the same code: they see all of them, and so does the recording."""
    seen: Counter[int] = Counter()
    program = WORK["torch"]["a thread that loads"]
    path = program_of(folder, program)

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != str(path):
            return None
        if event == "line":
            seen[frame.f_lineno] += 1
        return trace

    names = names_of("torch")
    threading.settrace(trace)
    try:
        recording = record_each({"cell": program}, folder, names)["cell"]
    finally:
        threading.settrace(None)  # type: ignore[arg-type]
    assert seen[5] == 4, "the line of the loading thread"
    assert lines_of(recording, "activities", "memcpy") == {(str(path), 5)}
    assert lines_of(recording, "activities", "kernel") == {(str(path), 10)}
