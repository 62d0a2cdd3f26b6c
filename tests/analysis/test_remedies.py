"""What each rule says of a kernel of each framework: its own remedy, or nothing. Every pair is decided here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import measured
import pytest
from graph_stories import GraphScript
from handmade import MS, US, Script

from kernelscope.analysis.advice import rules
from kernelscope.analysis.builds import explain_builds
from kernelscope.analysis.compiles import explain
from kernelscope.analysis.remedies import FRAMEWORKS
from kernelscope.views.card.model import Overview

_NUMBA = ("numba-cuda", "numba-cuda-mlir")
#: Frameworks that compile what the user wrote, with a row for each compile.
_COMPILING = (*_NUMBA, "quadrants", "triton", "torch.compile", "cupy", "jax", "warp", "cutile", "cute")
_NO_COMPILES = ("simulator", "cuda.core", "cuda.compute", "driver")
_F32, _F64 = "array(float32, 1d, C)", "array(float64, 1d, C)"


def _kernel(framework: str, grid: tuple[int, ...] = (400,), block: tuple[int, ...] = (128,), wall_ns: int = 100 * MS,
            owner: str = "user", **row: Any) -> Script:
    """A cell with a device and a kernel of a framework, with one specialization and one launch configuration."""
    made = Script()
    made.device(multiprocessors=132)
    made.cell(wall_ns=wall_ns)
    owner = "library" if framework == "driver" else owner
    made.kernel("axpy", framework=framework, arguments="x, n", attributes=json.dumps({"owner": owner}), **row)
    made.specialization()
    made.configuration(grid, block)
    return made


def _compiled(framework: str, *signatures: str, reason_code: str | None = None, duration_ns: int = 50 * MS,
              owner: str = "user", **row: Any) -> Script:
    made = _kernel(framework, owner=owner)
    made.launch()
    for at, signature in enumerate(signatures):
        made.compilation(0, duration_ns, signature=signature, cell_id=0, fix="do something else", reason="it was new",
                         **({"reason_code": reason_code if at else "first_use"} | row))
    return made


def _for_types(reason: str) -> Callable[..., Script]:
    return lambda framework, **how: _compiled(framework, f"({_F32},)", f"({_F64},)", "(array(int8, 1d, C),)",
                                              reason_code=reason, **how)


def _types(framework: str, **how: Any) -> Script:
    return _compiled(framework, *(f"({_F32}, {each})" for each in ("int64", "int32", "int8", "float64")),
                     reason_code="new_scalar", **how)


def _defined(*names: str) -> Callable[..., Script]:
    def story(framework: str, owner: str = "user") -> Script:
        made = Script()
        made.cell()
        for name in names:
            made.compilation(made.kernel(name, framework=framework, code_sha256="a", attributes=json.dumps(
                {"owner": "library" if framework == "driver" else owner})), 40 * MS, cell_id=0)
        return made

    return story


def _launches(framework: str, execute_ns: int | None = None, owner: str = "user", wall_ns: int = 9 * MS,
              **shape: Any) -> Script:
    made = _kernel(framework, wall_ns=wall_ns, owner=owner, **shape)
    for _ in range(600):
        launch = made.launch()
        if execute_ns is not None:
            made.activity(launch_id=launch, start_ns=made.rows["launches"][-1]["submit_end_ns"], duration_ns=execute_ns)
    return made


def _long(framework: str, owner: str = "user") -> Script:
    made = _kernel(framework, wall_ns=15 * MS, owner=owner)
    for at in range(600):
        made.launch(phases=(3 * US, 0, 4 * US + (5 * MS if at == 300 else 0), 2 * US, US))
    return made


def _preparing(framework: str, passed: Any = None, copies: bool | None = None, owner: str = "user") -> Script:
    made = _kernel(framework, owner=owner)
    if passed is not None:
        made.compilation(attributes=json.dumps({"passed": passed}), cell_id=0)
    for _ in range(3):
        made.launch(phases=(3 * US, 0, 90 * US, 6 * US, US))
        if copies:
            start = made.rows["launches"][-1]["start_ns"] + 10 * US
            made.activity("memcpy", "HtoD", 5 * US, start_ns=start + US, submit_start_ns=start, size_bytes=1 << 20,
                          submit_end_ns=start + 9 * US)
    if copies is not None:
        made.metadata["gpu"] = {"source": "cupti"}
        made.activity(start_ns=made.now)
    return made


def _pageable(framework: str, owner: str = "user") -> Script:
    made = _kernel(framework, owner=owner)
    made.launch()
    made.activity("memcpy", "HtoD", 6 * MS, start_ns=made.rows["cells"][0]["start_ns"], size_bytes=1 << 20,
                  memory="pageable to device")
    return made


def _graphs(kind: str) -> Callable[..., Script]:
    def story(framework: str, owner: str = "user") -> Script:
        made = GraphScript()
        for row in made.rows["dispatchers"]:
            row |= {"framework": framework, "attributes": json.dumps({
                "owner": "library" if framework == "driver" else owner})}
        before = made.instantiate()
        if kind == "rebuilt":
            for _ in range(3):
                made.replay(before)
                before = made.instantiate(rebuild_of=before, change="none")
            made.replay(before)
        elif kind == "refused":
            made.graph_event("update", 0, exec_id=before, outcome="refused", error="nodes were added")
        elif kind == "once":
            made.replay(before)
        made.close(before)
        return made

    return story


def _built(framework: str, owner: str = "user") -> Script:
    made = _kernel(framework, owner=owner)
    made.build(framework=framework)
    made.build(framework=framework, reason_code="new_operator_name")
    return made


def _tuned(outcome: str) -> Callable[..., Script]:
    def story(framework: str, owner: str = "user") -> Script:
        made = _kernel(framework, wall_ns=10_000 * MS, owner=owner)
        for at in range(4):
            run = made.tuning({"n": str(at)}, (0.3, 0.1))
            made.compilation(launch_id=made.launch(build_id=run), outcome=outcome)
        return made

    return story


def _rounds(framework: str, owner: str = "user") -> Script:
    made = _kernel(framework, wall_ns=2 * MS, owner=owner)
    made.specialization()
    for _ in range(60):
        made.launch(specialization=0)
        made.launch(specialization=1)
    return made


def _fell_back(framework: str, owner: str = "user") -> Script:
    made = Script()
    made.cell()
    made.kernel("step", framework=framework, options='{"graph": true}', attributes=json.dumps({"owner": owner}))
    made.specialization(0, attributes=json.dumps({"graph": True, "plain_because": "it makes no graphs"}))
    made.configuration()
    made.launch()
    return made


def _counted(framework: str, owner: str = "user") -> Script:
    """Kernels to each of which one of the rules on counters applies."""
    made = measured.script()
    for row in made.rows["dispatchers"]:
        row |= {"framework": framework, "attributes": json.dumps({
            "owner": "library" if framework == "driver" else owner})}
    made.rows["specializations"][5] |= {"regs": 128}
    made.rows["occupancies"][5] |= {"occupancy": 0.25, "active_blocks_per_multiprocessor": 2}
    made.rows["configurations"][1] |= {"griddim_x": 300, "griddim_y": 1}
    made.rows["specializations"][4] |= {"local_bytes": 96, "spill_store_bytes": 48, "spill_load_bytes": 48}
    for row in made.rows["metrics"]:
        if made.rows["measurements"][row["measurement_id"]]["specialization_id"] == 4 and "mem_local" in row["name"]:
            row["value"] = 1_048_576
    return made


def _table(said: Mapping[str | tuple[str, ...], str], silent: tuple[str, ...]) -> dict[str, str | None]:
    """Return what is said of each framework, a part of the text, and None where nothing is."""
    found: dict[str, str | None] = dict.fromkeys(silent)
    for names, text in said.items():
        for name in (names,) if isinstance(names, str) else names:
            assert name not in found, f"{name} is decided twice"
            found[name] = text
    return found


def _but(*names: str) -> tuple[str, ...]:
    assert set(names) <= set(FRAMEWORKS)
    return tuple(each for each in FRAMEWORKS if each not in names)


_FEWER = {
    (*_NUMBA, "cuda.core"): "Launch less often with more work, or as a CUDA graph.",
    "cuda.compute": "Call it less often with more work in each call.",
    "quadrants": "@qd.kernel(graph=True)", "triton": "torch.cuda.graph", "torch.compile": 'mode="reduce-overhead"',
    "cupy": "stream.begin_capture", "jax": "jax.lax.scan", "warp": "wp.ScopedCapture",
    ("cutile", "cute"): "as a CUDA graph of its stream", "driver": "Call what launches it less often",
}
_OF_GRAPHS = ("quadrants", "torch.compile", "jax")
_THREADS = (*_NUMBA, "cuda.core", "cupy")

#: By rule: a recording of which it says something, and of each framework what it says.
RULE_BY_FRAMEWORK: dict[str, tuple[Callable[..., Script], dict[str, str | None]]] = {
    "argument_types": (_types, _table({(*_NUMBA, "quadrants"): "Pass it as one type."}, _but(*_NUMBA, "quadrants"))),
    "recreated": (_defined("again", "again"), _table(
        {_NUMBA: "and pass what it captures as arguments",
         _COMPILING[2:]: "keep the definition out of the loop or function that runs again."}, _NO_COMPILES)),
    "same_code": (_defined("one", "two"), _table(
        {_COMPILING: "One definition that all launches use would need fewer."}, _NO_COMPILES)),
    "repeated_layouts": (_for_types("new_layout"), _table({
        _NUMBA: "pass arrays of one layout", "torch.compile": ".contiguous()", "cupy": "cupy.ascontiguousarray",
        "warp": ".contiguous()", "cutile": "pass arrays of one layout", "cute": "mark_layout_dynamic"},
        ("simulator", "cuda.core", "cuda.compute", "quadrants", "triton", "jax", "driver"))),
    "repeated_dtypes": (_for_types("new_dtype"), _table({
        (*_NUMBA, "quadrants"): "cast its arguments to one dtype", ("triton", "torch.compile"): ".to(dtype)",
        ("cupy", "jax"): ".astype(dtype)", ("warp", "cutile"): "pass arrays of one dtype",
        "cute": "pass tensors of one dtype"}, ("simulator", "cuda.core", "cuda.compute", "driver"))),
    "repeated_scalars": (_for_types("new_scalar"), _table({
        _NUMBA: "int(value)", "triton": "tl.int64", "cupy": "numpy.int32(value)", "jax": "jnp.asarray(value, dtype)",
        "warp": "wp.int32(value)", "cutile": "pass numbers of one type", "cute": "cutlass.Int32(value)"},
        ("simulator", "cuda.core", "cuda.compute", "quadrants", "torch.compile", "driver"))),
    "repeated_tuples": (_for_types("tuple_arity"), _table({_NUMBA: "pass an array"}, _but(*_NUMBA))),
    "launch_configurations": (_for_types("launch_config"), _table({_NUMBA: "use fewer distinct grids"}, _but(*_NUMBA))),
    # The fix is the framework's own, from the compile; see the tests of compiles.py, triton.py and the others.
    "changed_argument": (
        lambda framework, **how: _compiled(framework, f"({_F32},)", f"({_F64},)", reason_code="new_dtype", **how),
        _table({_COMPILING: "Do something else."}, _NO_COMPILES)),
    "no_disk_cache": (
        lambda framework, **how: _compiled(framework, f"({_F32},)", duration_ns=150 * MS, **how),
        _table({_NUMBA: "cache=True in @cuda.jit would spare", "quadrants": "qd.init(offline_cache=True) would spare",
                "jax": "jax_compilation_cache_dir", "cuda.core": "a FileStreamProgramCache of cuda.core.utils would"},
               _but(*_NUMBA, "quadrants", "jax", "cuda.core"))),
    "launch_bound": (lambda framework, **how: _launches(framework, 2 * US, **how), _table(_FEWER, ("simulator",))),
    "many_launches": (_launches, _table(_FEWER, ("simulator",))),
    "long_launches": (_long, _table({
        (*_NUMBA, "quadrants"): "in prepare, where host arrays are copied in",
        _but(*_NUMBA, "quadrants", "simulator"): "in prepare. The timeline"}, ("simulator",))),
    "slow_prepare": (
        lambda framework, **how: _preparing(framework, ["host"], **how), _table(
            {_NUMBA: "pass device arrays (cuda.to_device)", "quadrants": "pass device arrays (qd.ndarray)"},
            _but(*_NUMBA, "quadrants"))),
    "pageable_copies": (_pageable, _table({
        _NUMBA: "(cuda.pinned_array)", ("triton", "torch.compile"): "tensor.pin_memory()", "cupy": "cupyx.empty_pinned",
        "warp": "pinned=True", ("simulator", "cuda.core", "cuda.compute", "quadrants", "jax", "cutile", "cute",
                                "driver"): "keep these arrays on the device."}, ())),
    "few_blocks": (
        lambda framework, **how: _launches(framework, wall_ns=800 * MS, grid=(1,), block=(32,), **how), _table(
            {(*_NUMBA, "cuda.core", "triton", "cupy", "warp", "cutile", "cute"): "have 1 block at most"},
            ("simulator", "cuda.compute", "quadrants", "torch.compile", "jax", "driver"))),
    "partial_warps": (
        lambda framework, **how: _launches(framework, wall_ns=800 * MS, block=(100,), **how), _table(
            {(*_NUMBA, "simulator", "cuda.core", "cupy", "warp", "cute"): "28 of the last warp's lanes idle"},
            ("cuda.compute", "quadrants", "triton", "torch.compile", "jax", "cutile", "driver"))),
    "rebuilt_graph": (_graphs("rebuilt"), _table({_but(*_OF_GRAPHS): "reuse the executable graph"}, _OF_GRAPHS)),
    "graph_launched_once": (_graphs("once"), _table(
        {_but(*_OF_GRAPHS): "only where it is launched again"}, _OF_GRAPHS)),
    "unlaunched_graph": (_graphs("never"), _table(
        {_but(*_OF_GRAPHS): "instantiate it where it is needed"}, _OF_GRAPHS)),
    "refused_updates": (_graphs("refused"), _table({_but(*_OF_GRAPHS): "instantiate without trying"}, _OF_GRAPHS)),
    "operator_names": (_built, _table({"cuda.compute": "Define the operator once"}, _but("cuda.compute"))),
    "autotune_key": (_tuned("compiled"), _table({"triton": "leave `n` out of key=[...]"}, _but("triton"))),
    "autotune_results": (_tuned("disk"), _table({"triton": "cache_results=True"}, _but("triton"))),
    "repeated_sequence": (_rounds, _table({
        "numba-cuda": "%kernelscope whatif graph", ("numba-cuda-mlir", "cuda.core", "cutile", "cute", "driver"):
        "Captured into a CUDA graph, a round is one launch.", "triton": "(torch.cuda.graph)",
        "cupy": "(stream.begin_capture)", "warp": "(wp.ScopedCapture)"},
        ("simulator", "cuda.compute", "quadrants", "torch.compile", "jax"))),
    "graph_fell_back": (_fell_back, _table({"quadrants": "it makes no graphs"}, _but("quadrants"))),
    "double_precision": (_counted, _table({_NUMBA: "Pass np.float32(a)"}, _but(*_NUMBA))),
    "uncoalesced": (_counted, _table({
        _THREADS: "(threadIdx.x)", ("warp", "quadrants"): "Let neighbouring threads access", "triton": "tl.arange"},
        ("simulator", "cuda.compute", "torch.compile", "jax", "cutile", "cute", "driver"))),
    "spills": (_counted, _table({
        _NUMBA: "max_registers", "cuda.core": "max_register_count", "cupy": "-maxrregcount", "triton": "maxnreg",
        ("warp", "quadrants"): "block_dim", ("cutile", "cute"): "a smaller tile"},
        ("simulator", "cuda.compute", "torch.compile", "jax", "driver"))),
    "low_occupancy": (_counted, _table({
        _NUMBA: "max_registers", "cuda.core": "max_register_count", "cupy": "-maxrregcount", "triton": "maxnreg",
        ("warp", "quadrants"): "block_dim", ("cutile", "cute"): "a smaller tile"},
        ("simulator", "cuda.compute", "torch.compile", "jax", "driver"))),
    "tail_effect": (_counted, _table(
        {(*_NUMBA, "cuda.core", "triton", "cupy", "warp", "cutile", "cute"): "Choose a grid of whole waves"},
        ("simulator", "cuda.compute", "quadrants", "torch.compile", "jax", "driver"))),
    "bank_conflicts": (_counted, _table({
        _NUMBA: "cuda.shared.array((32, 33), dtype)", ("cuda.core", "cupy"): "__shared__ float tile[32][33]",
        ("warp", "quadrants", "cute"): "one element longer."},
        ("simulator", "cuda.compute", "triton", "torch.compile", "jax", "cutile", "driver"))),
    # It says that there is nothing to gain.
    "at_roof": (_counted, _table({FRAMEWORKS: "nothing to gain here but fewer bytes"}, ())),
}
#: Rules that also speak of a library's kernels: calling the library less often, and what is so, is the user's.
OF_LIBRARIES = {"launch_bound", "many_launches", "long_launches", "pageable_copies", "rebuilt_graph",
                "graph_launched_once", "unlaunched_graph", "refused_updates", "repeated_sequence", "at_roof",
                "operator_names", "graph_fell_back"}
#: And of numba's own kernels, such as that of .T, what to do instead.
OF_NUMBAS_OWN = {"recreated"}


def _said(made: Script) -> dict[str, str]:
    return {each.code: each.text for each in Overview(explain_builds(made.recording())).advice}


def test_every_rule_is_decided_for_every_framework() -> None:
    assert set(RULE_BY_FRAMEWORK) == set(rules())
    assert all(set(table) == set(FRAMEWORKS) for _, table in RULE_BY_FRAMEWORK.values())


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("code", RULE_BY_FRAMEWORK)
def test_a_rule_has_the_framework_s_own_remedy_or_says_nothing(code: str, framework: str) -> None:
    make, table = RULE_BY_FRAMEWORK[code]
    found, wanted = _said(make(framework)).get(code), table[framework]
    assert (found is None) if wanted is None else (found is not None and wanted in found), found
    if framework not in _NUMBA and found is not None:
        assert "cuda.jit" not in found
        assert "cuda.to_device" not in found


@pytest.mark.parametrize("code", RULE_BY_FRAMEWORK)
def test_a_framework_of_a_newer_version_gets_no_remedy_of_another(code: str) -> None:
    found = _said(RULE_BY_FRAMEWORK[code][0]("a newer framework")).get(code)
    assert found is None or code in ("pageable_copies", "rebuilt_graph", "graph_launched_once", "unlaunched_graph",
                                     "refused_updates", "at_roof"), found


@pytest.mark.parametrize("framework", [each for each in FRAMEWORKS if each != "driver"])
@pytest.mark.parametrize("code", RULE_BY_FRAMEWORK)
def test_a_library_s_kernel_gets_no_advice_about_what_the_user_cannot_pass(code: str, framework: str) -> None:
    found = _said(RULE_BY_FRAMEWORK[code][0](framework, owner="library")).get(code)
    if code not in OF_LIBRARIES and not (code in OF_NUMBAS_OWN and framework in _NUMBA):
        assert found is None


@pytest.mark.parametrize(("passed", "copies", "text"), [
    (["host", "device"], None, "where host arrays are copied: pass device arrays"),
    ([["device", "host"]], None, "where host arrays are copied: pass device arrays"),
    (["device"], None, None),
    (["device", None, ["device", None]], None, None),
    (None, None, "if it takes any, pass device arrays"),
    (["cupy", "device"], None, "where arrays of CuPy are wrapped: pass cuda.as_cuda_array(array)"),
    (["cupy", "torch", "other"], False, "where arrays of CuPy, PyTorch, another library are wrapped"),
    (["cupy", "host"], None, "pass device arrays"),
    (["device"], False, None),
    (None, False, None),
    (["device"], True, "(3.0 MiB in and out): pass device arrays"),  # not the arrays that it was compiled for
])
def test_a_launch_that_prepares_long_is_told_by_what_was_passed(passed: Any, copies: bool | None,
                                                                text: str | None) -> None:
    found = _said(_preparing("numba-cuda", passed, copies)).get("slow_prepare")
    assert (found is None) if text is None else (found is not None and text in found), found


def test_numba_cuda_mlir_gets_no_advice_to_wrap_arrays() -> None:
    assert "slow_prepare" not in _said(_preparing("numba-cuda-mlir", ["cupy"]))


@pytest.mark.parametrize("row", [
    {"filename": "<string>"}, {"options": '{"link": ["a.cu"]}'},
])
def test_a_kernel_that_numba_cannot_keep_is_advised_no_disk_cache(row: dict[str, Any]) -> None:
    made = _compiled("numba-cuda", f"({_F32},)", duration_ns=150 * MS)
    assert "no_disk_cache" in _said(made)
    made.rows["dispatchers"][0] |= row
    assert "no_disk_cache" not in _said(made)


def test_a_launch_config_sensitive_kernel_of_mlir_stays_in_memory() -> None:
    made = _compiled("numba-cuda-mlir", f"({_F32},)", duration_ns=150 * MS, launch_config_sensitive=True)
    assert "no_disk_cache" not in _said(made)


@pytest.mark.parametrize(("library", "text"), [
    ("PyTorch", "in pinned memory (tensor.pin_memory()), or on the device"),
    ("CuPy", "in pinned memory (cupyx.empty_pinned), or on the device"), ("XLA", "keep these arrays on the device."),
])
def test_pinned_memory_is_that_of_the_library(library: str, text: str) -> None:
    made = _pageable("driver")
    made.rows["dispatchers"][0]["module"] = library
    assert text in _said(made)["pageable_copies"]


def test_kernels_of_inductor_s_graphs_are_not_the_user_s() -> None:
    assert "rebuilt_graph" in _said(_graphs("rebuilt")("triton"))
    assert "rebuilt_graph" not in _said(_graphs("rebuilt")("triton", owner="library"))


#: Words of one framework, which no fix for another one has.
_WORDS = {
    _NUMBA: ("@cuda.jit", "cuda.to_device", "kernel[griddim", "cuda.reduce"), ("quadrants",): ("qd.",),
    ("triton",): ("triton.jit", "tl.", "Triton"), ("torch.compile",): ("mark_dynamic", "torch.compile"),
    ("cupy",): ("cupy", "CuPy"), ("jax",): ("jax", "jnp", "JAX"), ("warp",): ("wp.", "Warp"),
    ("cutile",): ("cuTile",), ("cute",): ("cute.", "CuTe"),
}
_ARRAYS = [{"arguments": {"out0": {"type": dtype, "ndim": 1, "layout": "C-contiguous"}}} for dtype in (
    "float32", "float64")]
_TRITON = [{"types": {"out0": kind}, "constexprs": {}, "options": {}, "divisible_by_16": []}
           for kind in ("*fp32", "*fp64")]


def _fixes(framework: str, owner: str, again: str) -> list[str | None]:
    """Return the fixes of a first compile, and of one for another dtype, for an option, or of a new definition."""
    made = Script()
    made.cell()
    first = made.kernel("axpy", framework=framework, arguments="out0", attributes=json.dumps({"owner": owner}),
                        code_sha256="a")
    held = [dict(each) for each in (_TRITON if framework == "triton" else _ARRAYS)]
    if again == "option":
        held[1] = held[0] | {"options": {"fast": True}}
    kernels = [first, first]
    if again == "definition":
        held[1] = held[0]
        kernels[1] = made.kernel("axpy", framework=framework, arguments="out0", code_sha256="a",
                                 attributes=json.dumps({"owner": owner}))
    for at, kernel in enumerate(kernels):
        signature = f"({_F32},)" if at == 0 or again != "dtype" else f"({_F64},)"
        number = made.specialization(kernel, signature, attributes=json.dumps(held[at]))
        attributes = {"redefined": {"same_code": True}} if at and again == "definition" else {}
        made.compilation(kernel, MS, signature=signature, specialization_id=number, attributes=json.dumps(attributes))
        made.now += 2 * MS
    return [row["fix"] for row in explain(made.recording()).rows("compilations")]


@pytest.mark.parametrize("again", ["dtype", "option", "definition"])
@pytest.mark.parametrize("owner", ["user", "library"])
@pytest.mark.parametrize("framework", _COMPILING)
def test_a_fix_has_no_words_of_another_framework(framework: str, owner: str, again: str) -> None:
    foreign = [word for names, words in _WORDS.items() for word in words if framework not in names and not (
        framework == "triton" and word == "torch.compile")]  # inductor's kernels are Triton's
    for fix in _fixes(framework, owner, again):
        assert not [word for word in foreign if word in (fix or "")], fix


@pytest.mark.parametrize("again", ["dtype", "option"])
@pytest.mark.parametrize("framework", ["cupy", "jax", "warp", "triton"])
def test_a_fix_names_no_argument_that_a_library_passes(framework: str, again: str) -> None:
    fix = _fixes(framework, "library", again)[1]
    assert fix is not None
    assert "out0" not in fix
    assert "out0" in (_fixes(framework, "user", again)[1] or "") or again == "option"
