"""torch.compile itself: why each recompile was needed, by argument, and that the printed fix avoids it.

Without a GPU the same runs on torch's CPU device, but for CUDA graphs and Triton's kernels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import kernelscope
from kernelscope.recording.model import Recording

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(r"ignore:.*torch\.jit:DeprecationWarning"),  # of inductor's own imports
    pytest.mark.filterwarnings(r"ignore:The \.grad attribute of a Tensor:UserWarning"),
    pytest.mark.filterwarnings(r"ignore:TensorFloat32 tensor cores:UserWarning"),  # of inductor, which raises on it
]
torch = pytest.importorskip("torch")
dynamo = pytest.importorskip("torch._dynamo")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SCALE = 2
on_a_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA GPU")


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    dynamo.reset()
    yield
    dynamo.reset()


def tensor(*sizes: int, **options: Any) -> Any:
    return torch.ones(*sizes, **{"device": DEVICE, **options})


def compiles(recording: Recording) -> list[dict[str, Any]]:
    """The compiles of torch; those of inductor's kernels by Triton, inside of them, are rows of their own."""
    from kernelscope.analysis.compiles import explain

    ours = {row["dispatcher_id"] for row in recording.rows("dispatchers") if row["framework"] == "torch.compile"}
    return [row for row in explain(recording).rows("compilations") if row["dispatcher_id"] in ours]


def recorded(*calls: Callable[[], Any]) -> list[dict[str, Any]]:
    """The compiles of the last call; the others are made before."""
    for call in calls[:-1]:
        call()
    with kernelscope.record() as recorder:
        calls[-1]()
    return compiles(recorder.recording)


# What is compiled.

def double(x: Any) -> Any:
    return x * 2


def scale(x: Any, n: Any) -> Any:
    return x * n


def choose(x: Any, how: Any) -> Any:
    return x * 2 if how == "twice" else x + 1


def optional(x: Any, y: Any = None) -> Any:
    return x + 1 if y is None else x + y


def total(xs: Any) -> Any:
    return sum(xs)


def column_sum(x: Any) -> Any:
    return x.sum(0)


def values(held: Any) -> Any:
    return sum(held.values())


def branch(x: Any) -> Any:
    return x * 2 if x.shape[0] > 10 else x + 1


def by_global(x: Any) -> Any:
    return x * SCALE


def apply(fn: Any, x: Any) -> Any:
    return fn(x) * 2


def add_to(x: Any, y: Any) -> Any:
    x.add_(y)
    return x + y


class Model(torch.nn.Module):
    """A layer, an attribute and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = torch.nn.Dropout()
        self.k: Any = 2

    def forward(self, x: Any) -> Any:
        return self.drop(x) * self.k


def captures(n: Any) -> Any:
    def inner(x: Any) -> Any:
        return x * n
    return inner


def dynamic(x: Any, at: int) -> Any:
    dynamo.mark_dynamic(x, at)
    return x


def unbacked(x: Any, at: int) -> Any:
    dynamo.decorators.mark_unbacked(x, at)
    return x


def inference() -> Any:
    with torch.inference_mode():
        return tensor(4)


def set_global(value: Any) -> None:
    globals()["SCALE"] = value


def set_k(model: Any, value: Any) -> Any:
    model.k = value
    return model


def without_gradients(call: Callable[[], Any]) -> Any:
    with torch.no_grad():
        return call()


Calls = tuple[Callable[[Any], Any], ...]


@dataclass(frozen=True)
class Change:
    """A change that makes torch compile again, and its fix applied.

    ``calls`` and ``fixed`` get the compiled function; the last of each is looked at. ``with_options`` are those of
    ``torch.compile`` that the fix adds.
    """

    function: Any
    calls: Calls
    code: str
    argument: str | None
    says: str
    fix: str
    fixed: Calls
    options: tuple[tuple[str, Any], ...] = ()
    with_options: tuple[tuple[str, Any], ...] = ()


DYNAMIC = (("dynamic", True),)
MODEL = Model()
ONCE = captures(2)

CHANGES = {
    "size": Change(double, (lambda f: f(tensor(16, 4)), lambda f: f(tensor(32, 4))), "static_size", "x",
                   "size 0 of argument `x` is 32, and 16 was compiled in", "torch._dynamo.mark_dynamic(x, 0)",
                   (lambda f: f(dynamic(tensor(16, 4), 0)), lambda f: f(tensor(32, 4)))),
    "size, dynamic": Change(double, (lambda f: f(tensor(16, 4)), lambda f: f(tensor(16, 8))), "static_size", "x",
                            "size 1 of argument `x` is 8, and 4", "torch.compile(..., dynamic=True)",
                            (lambda f: f(tensor(16, 4)), lambda f: f(tensor(16, 8))), with_options=DYNAMIC),
    "size of 1": Change(double, (lambda f: f(tensor(16, 4)), lambda f: f(tensor(1, 4))), "static_size", "x",
                        "torch always compiles sizes of 0 and 1 in", "mark_unbacked(x, 0) before every call",
                        (lambda f: f(unbacked(tensor(16, 4), 0)), lambda f: f(unbacked(tensor(1, 4), 0)))),
    "size of 1, dynamic": Change(double, (lambda f: f(tensor(16, 4)), lambda f: f(tensor(1, 4))), "size_condition", "x",
                                 "holds only where `2 <= x.size()[0]`", "or pad it to 2 or more",
                                 (lambda f: f(tensor(16, 4)), lambda f: f(tensor(2, 4))), options=DYNAMIC),
    "branch on a size": Change(branch, (lambda f: f(tensor(8)), lambda f: f(tensor(20))), "size_condition", "x",
                               "by the code at line", "call once with sizes on each side of it",
                               (lambda f: f(tensor(8)), lambda f: f(tensor(20)), lambda f: f(tensor(30))),
                               options=DYNAMIC),
    "dimensions": Change(double, (lambda f: f(tensor(16, 4)), lambda f: f(tensor(64))), "new_dimensions", "x",
                         "argument `x` has 1 dimension; 2 were compiled", "pass x with 2 dimensions",
                         (lambda f: f(tensor(16, 4)), lambda f: f(tensor(64).view(16, 4)))),
    "dtype": Change(double, (lambda f: f(tensor(4)), lambda f: f(tensor(4, dtype=torch.float64))), "new_dtype", "x",
                    "argument `x` is float64; float32 was compiled", "pass x.to(torch.float32)",
                    (lambda f: f(tensor(4)), lambda f: f(tensor(4, dtype=torch.float64).to(torch.float32)))),
    "layout": Change(double, (lambda f: f(tensor(16, 4)), lambda f: f(tensor(4, 16).t())), "new_layout", "x",
                     "it is not contiguous", "pass x.contiguous()",
                     (lambda f: f(tensor(16, 4)), lambda f: f(tensor(4, 16).t().contiguous()))),
    "gradient": Change(double, (lambda f: f(tensor(4)), lambda f: f(tensor(4, requires_grad=True))), "requires_grad",
                       "x", "requires a gradient", "pass x.detach()",
                       (lambda f: f(tensor(4)), lambda f: f(tensor(4, requires_grad=True).detach()))),
    "inference mode": Change(double, (lambda f: f(tensor(4)), lambda f: f(inference())), "new_tensor_kind", "x",
                             "was made in torch.inference_mode()", "pass x.clone()",
                             (lambda f: f(tensor(4)), lambda f: f(inference().clone()))),
    "parameter": Change(double, (lambda f: f(tensor(4)), lambda f: f(torch.nn.Parameter(tensor(4)))), "new_type", "x",
                        "is of the type Parameter", "pass x.detach()",
                        (lambda f: f(tensor(4)), lambda f: f(torch.nn.Parameter(tensor(4)).detach()))),
    "grad mode": Change(double, (lambda f: f(tensor(4)), lambda f: without_gradients(lambda: f(tensor(4)))), "new_mode",
                        None, "torch.no_grad", "make every call under torch.no_grad()",
                        (lambda f: without_gradients(lambda: f(tensor(4))),
                         lambda f: without_gradients(lambda: f(tensor(4))))),
    "integer": Change(scale, (lambda f: f(tensor(4), 3), lambda f: f(tensor(4), 5)), "new_value", "n",
                      "argument `n` is 5, and 3 was compiled in", "torch.compile(..., dynamic=True)",
                      (lambda f: f(tensor(4), 3), lambda f: f(tensor(4), 5)), with_options=DYNAMIC),
    "float": Change(scale, (lambda f: f(tensor(4), 3.5), lambda f: f(tensor(4), 4.5)), "new_value", "n",
                    "argument `n` is 4.5, and 3.5", "pass a tensor: torch.tensor(n)",
                    (lambda f: f(tensor(4), torch.tensor(3.5)), lambda f: f(tensor(4), torch.tensor(4.5)))),
    "text": Change(choose, (lambda f: f(tensor(4), "twice"), lambda f: f(tensor(4), "more")), "new_value", "how",
                   "argument `how` has another value, and 'twice'", "call once with each ahead of time",
                   (lambda f: f(tensor(4), "twice"), lambda f: f(tensor(4), "more"), lambda f: f(tensor(4), "more"))),
    "no longer None": Change(optional, (lambda f: f(tensor(4)), lambda f: f(tensor(4), tensor(4))), "new_value", "y",
                             "argument `y` is a float32 tensor, and None", "call once with each ahead of time",
                             (lambda f: f(tensor(4)), lambda f: f(tensor(4), tensor(4)),
                              lambda f: f(tensor(4), tensor(4)))),
    "None": Change(optional, (lambda f: f(tensor(4), tensor(4)), lambda f: f(tensor(4))), "new_type", "y",
                   "is of the type NoneType; a tensor was compiled", "or call once with each ahead of time",
                   (lambda f: f(tensor(4)), lambda f: f(tensor(4), tensor(4)), lambda f: f(tensor(4)))),
    "another type": Change(total, (lambda f: f([tensor(4)]), lambda f: f((tensor(4),))), "new_type", "xs",
                           "argument `xs` is of the type tuple; list was compiled", "pass a list as xs",
                           (lambda f: f([tensor(4)]), lambda f: f([tensor(4)]))),
    "items of a list": Change(total, (lambda f: f([tensor(4)] * 2), lambda f: f([tensor(4), tensor(4), tensor(4)])),
                              "new_length", "xs", "argument `xs` has 3 items; 2 were compiled", "torch.stack(xs)",
                              (lambda f: torch.compile(column_sum, backend="eager", dynamic=True)(
                                  torch.stack([tensor(4)] * 2)),
                               lambda f: torch.compile(column_sum, backend="eager", dynamic=True)(
                                   torch.stack([tensor(4)] * 3)))),
    "keys of a dict": Change(values, (lambda f: f({"a": tensor(4)}), lambda f: f({"b": tensor(4)})), "new_keys", "held",
                             "argument `held` has other keys; `'a'`", "pass the same keys in the same order",
                             (lambda f: f({"a": tensor(4)}), lambda f: f({"a": tensor(4)}))),
    "global": Change(by_global, (lambda f: (set_global(2), f(tensor(4))), lambda f: (set_global(3), f(tensor(4)))),
                     "new_global", None, "the global `SCALE` has changed; 2 was", "SCALE = torch.tensor(2)",
                     (lambda f: (set_global(torch.tensor(2)), f(tensor(4))),
                      lambda f: (set_global(torch.tensor(3)), f(tensor(4))))),
    "captured value": Change(apply, (lambda f: f(captures(2), tensor(4)), lambda f: f(captures(3), tensor(4))),
                             "captured_value", "fn", "`n`, a variable that `fn` captures, has changed; 2 was",
                             "n = torch.tensor(2)",
                             (lambda f: f(captures(torch.tensor(2)), tensor(4)),
                              lambda f: f(captures(torch.tensor(3)), tensor(4)))),
    "function": Change(apply, (lambda f: f(lambda x: x * 2, tensor(4)), lambda f: f(lambda x: x * 2, tensor(4))),
                       "new_function", "fn", "argument `fn` is another function", "pass the same one in every call",
                       (lambda f: f(ONCE, tensor(4)), lambda f: f(ONCE, tensor(4)))),
    "library function": Change(apply, (lambda f: f(torch.sin, tensor(4)), lambda f: f(torch.cos, tensor(4))),
                               "new_function", "fn", "argument `fn` is another function", "pass the same one",
                               (lambda f: f(torch.sin, tensor(4)), lambda f: f(torch.sin, tensor(4)))),
    "attribute": Change(lambda x: MODEL(x), (lambda f: (set_k(MODEL, 2), f(tensor(4))),
                                             lambda f: (set_k(MODEL, 3), f(tensor(4)))),
                        "new_attribute", None, "has changed; 2 was compiled in", "= torch.tensor(2)",
                        (lambda f: (set_k(MODEL, torch.tensor(2)), f(tensor(4))),
                         lambda f: (set_k(MODEL, torch.tensor(3)), f(tensor(4))))),
    "training": Change(lambda x: MODEL(x), (lambda f: (set_k(MODEL, 2).train(), f(tensor(4))),
                                            lambda f: (MODEL.eval(), f(tensor(4)))),
                       "new_attribute", None, "another mode, train() or eval()", "or one call in each ahead of time",
                       (lambda f: (set_k(MODEL, 2).train(), f(tensor(4))), lambda f: (MODEL.eval(), f(tensor(4))),
                        lambda f: (MODEL.train(), f(tensor(4))))),
    "the same tensor": Change(add_to, (lambda f: f(tensor(4), tensor(4)), lambda f: f(*[tensor(4)] * 2)), "aliasing",
                              "y", "`x`, `y` are the same tensor", "pass y.clone()",
                              (lambda f: f(tensor(4), tensor(4)), lambda f: f((x := tensor(4)), x.clone()))),
    "no longer the same": Change(add_to, (lambda f: f(*[tensor(4)] * 2), lambda f: f(tensor(4), tensor(4))), "aliasing",
                                 "x", "`x` and `y` are different", "make the first call with different ones",
                                 (lambda f: f(tensor(4), tensor(4)), lambda f: f(tensor(4), tensor(4)))),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_has_its_reason_and_its_fix_avoids_it(change: Change) -> None:
    def asked(calls: Calls, options: dict[str, Any]) -> list[dict[str, Any]]:
        dynamo.reset()
        compiled = torch.compile(change.function, backend="eager", **options)
        return recorded(*[(lambda call=call: call(compiled)) for call in calls])

    options = dict(change.options)
    (row,) = asked(change.calls, options)
    assert (row["reason_code"], row["argument"], row["outcome"]) == (change.code, change.argument, "compiled")
    assert change.says in row["reason"], row["reason"]
    assert change.fix in row["fix"], row["fix"]
    assert asked(change.fixed, {**options, **dict(change.with_options)}) == []


def test_device() -> None:
    compiled = torch.compile(double, backend="eager")
    (row,) = recorded(lambda: compiled(tensor(4)), lambda: compiled(torch.ones(4, device="meta")))
    assert (row["reason_code"], row["argument"], row["fix"]) == ("new_device", "x", f'pass x.to("{DEVICE}")')


def test_backend() -> None:
    (row,) = recorded(lambda: torch.compile(double, backend="eager")(tensor(4)),
                      lambda: torch.compile(double, backend="aot_eager")(tensor(4)))
    assert row["reason_code"] == "new_backend"


def test_recompile_limit() -> None:
    compiled = torch.compile(double, backend="eager")

    def call() -> None:
        for dimensions in range(1, 5):
            compiled(tensor(*[2] * dimensions))

    with dynamo.config.patch(recompile_limit=3):
        *_, third, last = recorded(call)
    assert (third["reason_code"], third["outcome"]) == ("new_dimensions", "compiled")
    assert (last["reason_code"], last["outcome"]) == ("recompile_limit", "failed")
    assert "compiled it 3 times" in last["reason"] and "argument `x` has 4 dimensions" in last["reason"]
    limit = re.search(r"torch\._dynamo\.config\.recompile_limit = (\d+)$", last["fix"])
    assert limit is not None
    dynamo.reset()
    with dynamo.config.patch(recompile_limit=int(limit[1])):
        assert {row["outcome"] for row in recorded(call)} == {"compiled"}


def test_stages_kernels_caches_and_graph_breaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))

    def step(x: Any) -> Any:
        y = (x * 2).relu()
        print("between")
        return (y + 1).sum()

    compiled = torch.compile(step)

    def call() -> None:
        x = tensor(8, 8, requires_grad=True)
        compiled(x).backward()

    with kernelscope.record() as recorder:
        call()
        call()
        dynamo.reset()
        call()
    recording = recorder.recording
    rows = compiles(recording)
    passes = recording.passes
    first, rest = rows[0], rows[1]
    assert [row["outcome"] for row in rows].count("disk") == 2 and not recording.health["status"].eq("degraded").any()
    assert (first["outcome"], first["reason_code"]) == ("compiled", "first_use")
    assert first["signature"] == f"x: float32[8, 8]{' cuda:0' if DEVICE == 'cuda' else ''} requires_grad"
    stages = set(passes[passes.compilation_id == first["compilation_id"]].name)
    assert {"dynamo", "AOTAutograd", "inductor", "lowering", "code generation", "Triton and C++", "guards"} <= stages
    by_id = {row["compilation_id"]: row for row in rows}
    for each in recording.rows("passes"):
        row = by_id.get(each["compilation_id"])
        if row is None:
            continue  # of a compile by Triton
        assert row["start_ns"] <= each["start_ns"] <= each["start_ns"] + each["duration_ns"] <= row["end_ns"]
    assert rest["reason_code"] == "graph_break" and "`print`" in rest["fix"]
    assert {row["reason_code"] for row in rows if row["outcome"] == "compiled"} == {
        "first_use", "graph_break", "backward"}
    text = str(recording)
    assert "1 graph break: line" in text and "(`print`)" in text
    kernels = "triton_poi_fused_" if DEVICE == "cuda" else "cpp_fused_"
    assert kernels in first["attributes"] and '"fx_graph_misses": 1' in first["attributes"]
    assert str(tmp_path) in first["cache_file"]


@on_a_gpu
@pytest.mark.filterwarnings("ignore::UserWarning:torch")  # of CUDA graph trees, about what is recorded here
def test_cuda_graph_trees() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8, device="cuda")
    compiled = torch.compile(lambda x: model(x), mode="reduce-overhead")
    mutated = torch.compile(lambda x: x.add_(1), mode="reduce-overhead")
    with kernelscope.record() as recorder, torch.no_grad():
        for _ in range(4):
            compiled(tensor(4, 8))
        model.weight.data = torch.ones(8, 8, device="cuda")  # its address was recorded
        for _ in range(2):
            compiled(tensor(4, 8))
        for _ in range(3):
            mutated(tensor(4, 8))
    rows = compiles(recorder.recording)
    events = [json.loads(row["attributes"]).get("cuda_graphs", []) for row in rows]
    assert [each["event"] for each in events[0]] == ["record", "record again"], events
    table = recorder.recording.activities
    replayed = table[(table.kind == "kernel") & table.cupti_graph_id.notna()]
    launches = len(recorder.recording.launches)
    kernels = int((table.kind == "kernel").sum())
    text = " ".join(str(recorder.recording).split())  # lines end anywhere
    assert len(replayed) and launches == kernels - len(replayed), (launches, kernels, text)
    assert f"{kernels:,} ran on the GPU" in text, text
    assert "CUDA graph recorded again: static input data pointer changed" in text, (events, text)
    assert "not run as a CUDA graph: mutated inputs" in text, (events, text)


@on_a_gpu
@pytest.mark.filterwarnings("ignore::UserWarning:torch")
def test_operators_of_launches() -> None:
    model = torch.nn.Linear(16, 16, device="cuda")
    compiled = torch.compile(lambda x: (model(x) * 2).relu().sum())
    compiled(tensor(8, 16)).backward()
    with kernelscope.record(torch_ops=True) as recorder:
        with torch.profiler.record_function("eager"):
            torch.nn.functional.gelu(model(tensor(8, 16))).sum().backward()
        compiled(tensor(8, 16)).backward()
        torch.cuda.synchronize()
    recording = recorder.recording
    paths = {row["operator_id"]: row["path"] for row in recording.rows("operators")}
    kernels = [row for row in recording.rows("activities") if row["kind"] == "kernel"]
    by_kernel = [(row["name"], paths.get(row["operator_id"])) for row in kernels]
    assert all(path is not None for _, path in by_kernel), by_kernel
    launched = [paths[row["operator_id"]] for row in recording.rows("launches")]
    assert any(path.startswith("eager / ") and path.endswith("aten::addmm") for path in launched), launched
    assert any("GeluBackward0" in path for path in launched), launched  # on a thread of autograd's
    assert any(path.startswith("Torch-Compiled Region: 0/0") for path in launched), launched
    assert any("CompiledFunctionBackward" in path for path in launched), launched
    table = recording.by_operator()
    told = table.to_string()
    assert table.operator.notna().all() and table.launches.sum() == len(launched), told
    assert (table.gpu_ns > 0).all() and (table.host_ns > 0).all(), told


def test_operators_beside_torchs_own_profiler(run_python: Callable[..., Any]) -> None:
    """In a process of its own: torch's profiler keeps CUPTI for as long as its process lives."""
    assert "ends well" in run_python(f"""
import warnings
warnings.simplefilter("ignore")  # torch's own
import torch
import kernelscope
x = torch.ones(8, device={DEVICE!r})
with kernelscope.record(torch_ops=True, gpu="none"):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        x.add_(1)
    with torch.autograd.profiler.emit_nvtx(enabled={DEVICE == "cuda"}):
        x.add_(1)
assert "aten::add_" in {{average.key for average in profile.key_averages()}}
print("ends well")
""").stdout
