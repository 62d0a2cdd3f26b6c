"""The probe of torch.compile against a stand-in; `tests/gpu/test_torch_on_a_gpu.py` has torch itself."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import pytest
import toy_torch

import kernelscope
from kernelscope.analysis.compiles import explain
from kernelscope.probes.torch import TorchProbe
from kernelscope.recorder.recorder import Recorder
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import redact

PRINT = "Failed to trace builtin operator\n  Explanation: How to trace `print` is not known\n  Hint: Avoid `print`."
SOURCE = "triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', '''\n\nbuf = triton_poi_fused_add_0\n"


def step(x: Any, n: Any = 3) -> Any:
    return x * n


def resumed() -> FunctionType:
    space: dict[str, Any] = {}
    exec("def torch_dynamo_resume_in_step_at_7(__nested_frame_values, ___stack0, x): return x", space)
    return space["torch_dynamo_resume_in_step_at_7"]


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield toy_torch.install(monkeypatch)


def compile_once(torch: Any, compile_id: str = "0/0", function: Any = step, guards: tuple[str, ...] = (),
                 inside: Callable[[], Any] = lambda: [], **values: Any) -> Any:
    torch._dynamo.guards.reasons[:] = guards
    return torch._dynamo.convert_frame._compile(
        function.__code__, function.__globals__, values, {}, (), inside, False, compile_id=compile_id)


def record(*calls: Callable[[], Any]) -> Recording:
    with Recorder("torch", probes=[TorchProbe()]) as recorder:
        for call in calls:
            call()
    return recorder.recording


def test_compiles_have_arguments_stages_caches_and_kernels(torch: Any) -> None:
    utils = torch._dynamo.utils

    def inside() -> list[str]:
        utils.stage("bytecode_tracing")
        utils.stage("pass.too_small_to_tell")
        torch._inductor.output_code.CompiledFxGraph(SOURCE, "fkey").post_compile(None, None, {"is_backward": False})
        utils.stage("inductor_compile")
        utils.counters["inductor"]["fxgraph_cache_miss"] += 1
        return ["check_tensor(L['x'], Tensor, DispatchKeySet(CUDA), torch.float32, device=0, requires_grad=False, "
                "size=[None, 16], stride=[16, 1])", "L['m'] == 5"]

    utils.counters["inductor"]["fxgraph_cache_hit"] += 7  # of before
    recording = record(lambda: compile_once(torch, x=torch.Tensor(8, 16), n=3, inside=inside))
    (row,) = explain(recording).rows("compilations")
    assert row["signature"] == "x: float32[dynamic, 16], n: int"
    assert (row["outcome"], row["trigger"], row["reason_code"]) == ("compiled", "launch", "first_use")
    assert (row["cache_key"], row["cache_file"]) == ("fkey", "/cache/fxgraph/fkey")
    attributes = json.loads(row["attributes"])
    assert attributes["caches"] == {"fx_graph_misses": 1}
    assert attributes["inductor"][0]["kernels"] == ["triton_poi_fused_add_0"]
    assert [(each["kind"], each["name"], each["duration_ns"]) for each in recording.rows("passes")] == [
        ("phase", "dynamo", 1000), ("phase", "inductor", 1000)]
    (dispatcher,) = recording.rows("dispatchers")
    assert (dispatcher["framework"], dispatcher["name"], dispatcher["arguments"]) == ("torch.compile", "step", "x, n")
    assert recording.launches.empty and recording.health.empty


def test_recompiles_name_argument_and_nearest(torch: Any) -> None:
    guards = ("0/0: tensor 'x' size mismatch at index 0. expected 8, actual 9", "0/7: n == 3")
    recording = record(lambda: compile_once(torch, x=torch.Tensor(8)),
                       lambda: compile_once(torch, "0/1", guards=guards, x=torch.Tensor(9)))
    row = explain(recording).rows("compilations")[1]
    assert (row["reason_code"], row["argument"], row["nearest_signature"]) == ("static_size", "x", "x: float32[8]")
    assert row["reason"] == ("size 0 of argument `x` is 9, and 8 was compiled in as a constant (of 2 compiled "
                             "versions, the last one used)")
    assert "mark_dynamic(x, 0)" in row["fix"]
    assert "compiled again" in str(recording) and "cuda.jit" not in str(recording)


def test_graphs_from_the_cache_are_loads(torch: Any) -> None:
    def inside() -> list[str]:
        torch._dynamo.utils.counters["inductor"]["fxgraph_cache_hit"] += 2
        return []

    recording = record(lambda: compile_once(torch, inside=inside),
                       lambda: compile_once(torch, "0/1", guards=("0/0: n == 3",), inside=inside, n=4))
    first, second = explain(recording).rows("compilations")
    assert (first["outcome"], first["reason_code"], first["fix"]) == ("disk", "disk", None)
    assert second["reason"].endswith("traced again because argument `n` is 4, and 3 was compiled in as a constant")


def test_graph_breaks_and_what_comes_after_them(torch: Any) -> None:
    def inside() -> list[str]:
        place = SimpleNamespace(lineno=7, name="step", filename=resumed().__code__.co_filename)
        torch._dynamo.utils.graph_break_reasons.append(SimpleNamespace(reason=PRINT, user_stack=[place]))
        return []

    compile_once(torch, inside=inside)  # of before
    function = FunctionType(step.__code__.replace(co_filename="<string>"), {})
    recording = record(lambda: compile_once(torch, inside=inside, function=function),
                       lambda: compile_once(torch, "1/0", function=resumed(), x=torch.Tensor(2)),
                       lambda: compile_once(torch, "2/0", function=resumed(), x=torch.Tensor(2)))
    first, rest, again = explain(recording).rows("compilations")
    assert len(json.loads(first["attributes"])["graph_breaks"]) == 1
    assert (rest["reason_code"], rest["fix"]) == ("graph_break", "avoid the graph break: Avoid `print`.")
    assert rest["signature"] == "x: float32[2]" and rest["dispatcher_id"] == again["dispatcher_id"]
    assert recording.dispatchers["name"].tolist() == ["step", "step (resumed at line 7)"]
    shown = " ".join(str(recording).split())
    assert "1 graph break: line 7: Failed to trace builtin operator (`print`)" in shown


def test_a_frame_without_anything_to_compile_is_no_compile(torch: Any) -> None:
    assert record(lambda: compile_once(torch, inside=lambda: None)).compilations.empty


def test_backward_passes_are_compiles_of_their_own(torch: Any) -> None:
    utils, graph = torch._dynamo.utils, torch._inductor.output_code.CompiledFxGraph(SOURCE, "fback")

    def backward(compile_id: str) -> None:
        torch._guards.CompileContext.current = compile_id
        utils.stage("GraphLowering.run", nanoseconds=10)
        graph.post_compile(None, None, {"is_backward": True})
        utils.stage("entire_backward_compile", nanoseconds=10_000_000)
        torch._guards.CompileContext.current = None

    recording = record(lambda: compile_once(torch, x=torch.Tensor(2)), lambda: backward("0/0"), lambda: backward("5/0"))
    rows = explain(recording).rows("compilations")
    row = next(row for row in rows if row["reason_code"] == "backward")
    assert len(rows) == 2 and (row["signature"], row["cache_key"]) == ("x: float32[2]", "fback")
    assert row["end_ns"] - row["start_ns"] == 10_000_000
    assert recording.passes["name"].tolist() == ["lowering"]


def test_failed_compiles_and_the_limit(torch: Any) -> None:
    def fail() -> Any:
        raise ValueError("no such thing\nsecond line")

    def limit() -> Any:
        raise RuntimeError("Dynamo recompile limit exceeded")

    guards = tuple(f"0/{at}: n == {at}" for at in (2, 1, 0))
    with pytest.raises(ValueError, match="no such thing") as raised:
        record(lambda: compile_once(torch, inside=fail))
    names = [each.name for each in raised.traceback]
    assert names[-3:] == ["_compile", "_compile", "fail"] or names[-2:] == ["_compile", "fail"]

    with Recorder("torch", probes=[TorchProbe()]) as recorder:
        for inside in (fail, limit):
            with pytest.raises((ValueError, RuntimeError)):
                compile_once(torch, inside=inside, guards=guards if inside is limit else (), n=9)
    failed, given_up = explain(recorder.recording).rows("compilations")
    assert (failed["outcome"], failed["reason_code"]) == ("failed", "first_use")
    assert failed["reason"].endswith("the compile failed: ValueError: no such thing")
    assert (given_up["outcome"], given_up["reason_code"]) == ("failed", "recompile_limit")
    assert "compiled it 3 times" in given_up["reason"] and given_up["fix"].endswith("recompile_limit = 6")


def test_ctrl_c_in_a_compile_passes(torch: Any) -> None:
    def interrupt() -> Any:
        raise KeyboardInterrupt

    with Recorder("torch", probes=[TorchProbe()]) as recorder:
        with pytest.raises(KeyboardInterrupt):
            compile_once(torch, inside=interrupt)
        compile_once(torch)
    assert recorder.recording.compilations["outcome"].tolist() == ["failed", "compiled"]


def test_cuda_graphs_that_are_recorded_again_or_not_at_all(torch: Any) -> None:
    trees, utils = torch._inductor.cudagraph_trees, torch._inductor.cudagraph_utils
    manager = trees.CUDAGraphTreeManager("0/0")
    model = SimpleNamespace(model=step)
    manager.ids_to_funcs = {0: model, 1: model}

    def skipped() -> list[str]:
        utils.log_cudagraph_skip_and_bump_counter("skipping cudagraphs due to cpu device (x)")
        return []

    def run() -> None:
        compile_once(torch)
        assert manager.record_function(["a"], 0) == ["a"]
        manager.record_function(["b"], 0)
        manager.record_function(["c"], 1)
        utils.log_cudagraph_skip_and_bump_counter("skipping cudagraphs due to mutated inputs")
        torch._dynamo.utils.stage("CachingAutotuner.benchmark_all_configs", "0/0")
        compile_once(torch, "1/0", inside=skipped)

    recording = record(run)
    first, second = [json.loads(row["attributes"]) for row in recording.rows("compilations")]
    events = [(each["event"], each.get("reason", "").partition("\n")[0]) for each in first["cuda_graphs"]]
    assert events == [("record", ""), ("record again", "static input data pointer changed."),
                      ("record again", "other sizes of a dynamic shape"),
                      ("skip", "skipping cudagraphs due to mutated inputs")]
    assert first["autotuning"] == {"kernels": 1, "duration_ns": 1000}
    assert second["cuda_graphs"] == [{"event": "skip", "reason": "skipping cudagraphs due to cpu device (x)"}]
    assert "not run as a CUDA graph: cpu device (x)" in str(recording)


def functions(torch: Any) -> dict[str, Any]:
    trees, inductor = torch._inductor.cudagraph_trees.CUDAGraphTreeManager, torch._inductor
    owners: list[ModuleType | type] = [
        torch._dynamo.convert_frame, torch._dynamo.guards, torch._dynamo.utils.ChromiumEventLogger, trees,
        inductor.output_code.CompiledFxGraph, inductor.cudagraph_utils]
    return {f"{owner.__name__}.{name}": (value, value.__code__, value.__defaults__, value.__kwdefaults__)
            for owner in owners for name, value in vars(owner).items() if isinstance(value, FunctionType)}


def test_undo_is_exact(torch: Any) -> None:
    before = functions(torch)
    with Recorder("torch", probes=[TorchProbe()]):
        assert functions(torch) != before
    assert functions(torch) == before


def test_a_wrapper_over_a_hook_stays_and_records_nothing(torch: Any) -> None:
    frames = torch._dynamo.convert_frame
    with Recorder("torch", probes=[TorchProbe()]) as recorder:
        inner = frames._compile
        frames._compile = lambda *args, **kwargs: inner(*args, **kwargs)
    assert compile_once(torch).guarded_code is not None
    assert recorder.recording.compilations.empty


def test_imported_in_the_middle_of_a_recording(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, source in toy_torch._SOURCES.items():
        folder = tmp_path.joinpath(*name.split("."))
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(source or "from torch._dynamo import convert_frame, guards, utils\n")
    (tmp_path / "torch" / "_inductor" / "__init__.py").write_text("")
    with monkeypatch.context() as patched:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
            patched.delitem(sys.modules, name)
        patched.syspath_prepend(tmp_path)
        with Recorder("torch", probes=[TorchProbe()]) as recorder:
            torch = importlib.import_module("torch._dynamo") and sys.modules["torch"]
            compile_once(torch)
        for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
            del sys.modules[name]
    assert len(recorder.recording.compilations) == 1


@pytest.mark.parametrize(("texts", "says"), [
    ({"_dynamo__guards": "def get_and_maybe_log_recompilation_reasons(entry): pass"}, "takes \\(entry\\), not"),
    ({"_dynamo__convert_frame": "def _compile(frame): pass"}, "_compile does not take \\(code, globals, locals"),
    ({"_dynamo__utils": "counters = {}\nclass ChromiumEventLogger: pass"}, "there is no function log_event_end"),
    ({"_guards": "", "_dynamo__utils": toy_torch._SOURCES["torch._dynamo.utils"].replace("counters", "counted")},
     "has no counters"),
])
def test_unknown_versions_are_refused(monkeypatch: pytest.MonkeyPatch, texts: dict[str, str], says: str) -> None:
    torch = toy_torch.install(monkeypatch, **{"_dynamo__guards": toy_torch._SOURCES["torch._dynamo.guards"], **texts})
    recording = record()
    (row,) = recording.rows("health")
    assert row["status"] == "unavailable" and "torch 2.11.0+cu130" in row["message"]
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(row["message"])
    assert torch._dynamo.convert_frame._compile.__code__.co_name == "_compile"


@pytest.mark.parametrize(("version", "status"), [("2.4.1", "unavailable"), ("2.13.0", "degraded")])
def test_versions(torch: Any, version: str, status: str) -> None:
    torch.__version__ = version
    (row,) = record(lambda: compile_once(torch)).rows("health")
    assert row["status"] == status and version in row["message"]


def test_an_inductor_without_these_functions_costs_what_they_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = toy_torch.install(monkeypatch, _inductor__cudagraph_trees="class CUDAGraphTreeManager: pass")
    recording = record(lambda: compile_once(torch))
    assert len(recording.compilations) == 1
    (row,) = recording.rows("health")
    assert row["status"] == "degraded" and "CUDAGraphTreeManager.record_function" in row["message"]


def test_errors_of_the_hooks_stay_in_health(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        """Nothing is known of it, and asking fails."""

        @property
        def dtype(self) -> Any:
            raise ZeroDivisionError

    torch.Tensor = Odd
    recording = record(lambda: compile_once(torch, x=Odd()))
    assert len(recording.compilations) == 1
    assert "ZeroDivisionError" in recording.rows("health")[0]["message"]


def test_nothing_of_the_user_is_in_a_redacted_recording(torch: Any) -> None:
    guards = ("0/0: G['SECRET_NAME'] == 'secret value'    # secret()  # home/secret.py:3 in step\nUser stack trace:\n"
              '  File "/home/secret/secret.py", line 3, in step\n    secret()',)
    recording = record(lambda: compile_once(torch, secret=1),
                       lambda: compile_once(torch, "0/1", guards=guards, x=torch.Tensor(2)))
    assert json.loads(recording.rows("compilations")[1]["attributes"])["guards"] == [
        "0/0: G['SECRET_NAME'] == 'secret value'  # secret.py:3 in step"]  # neither code nor folders
    shown = redact(recording)
    text = json.dumps({name: shown.rows(name) for name in ("compilations", "dispatchers", "passes", "lines")},
                      default=str)
    assert "secret" not in text.lower() and "step" not in text
    assert shown.dispatchers["framework"].tolist() == ["torch.compile"]
    assert shown.compilations["reason_code"].tolist()[0] == "first_use"


def test_a_session_has_the_probe(torch: Any) -> None:
    with kernelscope.record() as recorder:
        compile_once(torch)
    assert "torch.compile" in recorder.recording.metadata["probes"]
    assert len(recorder.recording.compilations) == 1
