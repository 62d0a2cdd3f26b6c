"""Why torch.compile compiled again, of texts that torch 2.11 has printed; `tests/gpu` makes torch print them."""

from __future__ import annotations

import json

import pytest
from handmade import MS, Script

from kernelscope.analysis.compiles import compilations
from kernelscope.analysis.torch_reasons import (
    CODES,
    arguments_of,
    break_text,
    changes,
    explain_guard,
    functions_of_kernels,
    kernels,
    notes,
    read_guard,
)

STACK = '\nUser stack trace:\n  File "/home/u/step.py", line 33, in g\n    def g(x, n): return x*n'
X = {"x": "float32[32, 4]"}

#: A text of torch's, what was passed, and of the cause: code, argument, words of the sentence, words of the fix.
GUARDS = {
    "size": ("0/0: tensor 'x' size mismatch at index 0. expected 16, actual 32", X, "static_size", "x",
             "size 0 of argument `x` is 32, and 16 was compiled in as a constant", "mark_dynamic(x, 0) before the"),
    "size of an item": ("0/0: tensor 'xs[1]' size mismatch at index 2. expected 16, actual 32", {"xs": "list of 2"},
                        "static_size", "xs", "size 2 of `xs[1]` is 32", "mark_dynamic(xs[1], 2)"),
    "size of 0": ("0/2: tensor 'x' size mismatch at index 0. expected 1, actual 0", X, "static_size", "x",
                  "torch always compiles sizes of 0 and 1 in", "mark_unbacked(x, 0) before every call"),
    "0/1 specialization": (
        "0/1: 2 <= x.size()[0]  # return (x*2).sum()  # x/reasons.py:22 in f (user code shown is first use of this "
        "value--the guard itself is not due user code but due to 0/1 specialization in the framework; to avoid "
        "specialization try torch._dynamo.decorators.mark_unbacked(tensor, dim))", X, "size_condition", "x",
        "holds only where `2 <= x.size()[0]`; torch always compiles", "mark_unbacked(x, 0)"),
    "branch on a size": (
        "0/0: 2 <= x.size()[0] <= 10  # def br(x): return x*2 if x.shape[0]>10 else x+1  # x/reasons.py:83 in br (user "
        "code shown)", X, "size_condition", "x", "`2 <= x.size()[0] <= 10`, by the code at line 83", "on each side"),
    "divisibility": ("0/0: (x.size()[0] % 2) == 0  # def rng(x): ...  # x/more.py:65 in rng (_dynamo/variables)", X,
                     "size_condition", "x", "`(x.size()[0] % 2) == 0`, by the code at line 65", "on each side"),
    "equal sizes": ("0/0: y.size()[0] == x.size()[0]  # (unknown var s17, please file a bug)", X, "size_condition",
                    None, "`y.size()[0] == x.size()[0]`", "on each side"),
    "range of an integer": ("0/1: 0 <= n <= 9  # def ints(x,n): ...  # x/more.py:78 in ints (fake_impls.py:939)",
                            {"n": "int 20"}, "size_condition", "n", "`0 <= n <= 9`", "on each side"),
    "dimensions": ("0/0: tensor 'x' rank mismatch. expected 2, actual 1", X, "new_dimensions", "x",
                   "has 1 dimension; 2 were compiled", "pass x with 2 dimensions"),
    "dtype": ("0/0: tensor 'x' dtype mismatch. expected Float, actual Half", X, "new_dtype", "x",
              "is float16; float32 was compiled", "pass x.to(torch.float32)"),
    "strides": ("0/0: tensor 'x' stride mismatch at index 0. expected 4, actual 1",
                {"x": "float32[16, 4] strides (1, 16)"},
                "new_layout", "x", "is 1, and 4 was compiled in: it is not contiguous", "pass x.contiguous()"),
    "no longer strided": ("0/0: tensor 'x' stride mismatch at index 0. expected 1, actual 4", X, "new_layout", "x",
                          "is 4, and 1 was compiled in", "pass x.contiguous() in every call"),
    "gradient": ("0/0: tensor 'x' requires_grad mismatch. expected requires_grad=0", X, "requires_grad", "x",
                 "requires a gradient", "pass x.detach()"),
    "no gradient": ("0/0: tensor 'x' requires_grad mismatch. expected requires_grad=1", X, "requires_grad", "x",
                    "requires no gradient", "pass x.requires_grad_()"),
    "device": (
        "0/0: tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CUDA, BackendSelect, ADInplaceOrView, "
        "AutogradCUDA), actual DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, AutogradCPU)", X, "new_device", "x",
        "is on cpu; cuda was compiled", 'pass x.to("cuda")'),
    "number of the device": (
        "0/0: tensor 'x' Tensor device index mismatch. Expected device index to be 0, actual 1", X, "new_device", "x",
        "is on device 1; device 0", 'pass x.to("cuda:0")'),
    "inference": (
        "0/1: tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, "
        "AutogradCPU), actual DispatchKeySet(CPU, BackendSelect, ADInplaceOrView)", X, "new_tensor_kind", "x",
        "was made in torch.inference_mode()", "pass x.clone()"),
    "sparse": (
        "0/0: tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, "
        "AutogradCPU), actual DispatchKeySet(SparseCPU, BackendSelect, ADInplaceOrView, AutogradCPU)", X,
        "new_tensor_kind", "x", "another kind (SparseCPU, ", None),
    "no tensor": ("0/0: expected type of 'y' to be a tensor type, ' but found <class 'numpy.ndarray'>",
                  {"y": "ndarray"},
                  "new_type", "y", "is of the type ndarray; a tensor", "pass torch.from_numpy(y)"),
    "grad mode": ("0/0: GLOBAL_STATE changed: grad_mode ", X, "new_mode", None, "torch.no_grad", "or none"),
    "autocast": ("0/0: GLOBAL_STATE changed: autocast(cpu)_enabled ", X, "new_mode", None, "torch.autocast has changed",
                 "under torch.autocast"),
    "threads": ("0/0: GLOBAL_STATE changed: num_threads ", X, "new_mode", None, "set_num_threads", "before the first"),
    "a mode of tomorrow": ("0/0: GLOBAL_STATE changed: allow_tf32 ", X, "new_mode", None,
                           "a global setting has changed: allow_tf32", "set allow_tf32 before the first call"),
    "integer": (f"0/0: n == 3             # def g(x, n): return x*n  # x/reasons.py:33 in g{STACK}", {"n": "int 4"},
                "new_value", "n", "argument `n` is 4, and 3 was compiled in", "dynamic=True"),
    "text": (f"0/0: n == 'a'             # def g2(x, n): ...  # x/reasons.py:36 in g2{STACK}", {"n": "str"},
             "new_value", "n", "has another value, and 'a' was", "call once with each"),
    "None": (f"0/0: y is None             # def opt(x,y=None): ...  # x/more.py:31 in opt{STACK}", {"y": "float32[4]"},
             "new_value", "y", "is a float32 tensor, and None was", "call once with each"),
    "global": (f"0/0: G['SCALE'] == 2             # def k(x): ...  # x/reasons.py:44 in k{STACK}", X, "new_global",
               None, "the global `SCALE` has changed; 2 was", "SCALE = torch.tensor(2)"),
    "global flag": (f"0/1: G['FLAG'] == True             # def k(x): ...  # x/reasons.py:44 in k{STACK}", X,
                    "new_global", None, "the global `FLAG` has changed; True was", "each of its values is compiled"),
    "attribute": (
        "0/0: s.k == 1             # def forward(s,x): ...  # x/reasons.py:50 in forward (HINT: torch.compile "
        f"considers integer attributes of the nn.Module to be static.){STACK}", {"s": "M"}, "new_attribute", "s",
        "`s.k` has changed; 1 was compiled in", "s.k = torch.tensor(1)"),
    "training": (f"0/0: q._modules['d'].training == True         # return F.drop(...)  # nn/dropout.py:73 in f{STACK}",
                 {"q": "N"}, "new_attribute", "q", "another mode, train() or eval()", "make every call in one mode"),
    "captured value": (
        "0/0: fn.__closure__[0].cell_contents == 2       # def inner(x): return x*n  # x/reasons.py:57 in inner (HINT: "
        f'guard on "n"){STACK}', {"fn": "function inner"}, "captured_value", "fn", "`n`, a variable that `fn` captures",
        "n = torch.tensor(2)"),
    "function": (
        "0/0: ___check_obj_id(fn.__code__, 139840203942096), type=<code object <lambda> at 0x7f2f15ae68d0, file "
        f'"/home/u/step.py", line 55>  # def ap2(fn,x): return fn(x)  # x/reasons.py:54 in ap2{STACK}',
        {"fn": "function <lambda>"}, "new_function", "fn", "argument `fn` is another function",
        "fn once, outside of loops"),
    "object": (f"0/0: ___check_obj_id(m, 140607649217120), type=<class '__main__.M'>  # ...  # a.py:1 in f{STACK}",
               {"m": "M"}, "new_object", "m", "argument `m` is another object", "the same object as m"),
    "type": (f"0/1: ___check_type_id(n, 139840216992608), type=<class 'int'>  # ...  # a.py:3 in g{STACK}",
             {"n": "bool True"}, "new_type", "n", "is of the type bool; int was compiled", "pass an int as n"),
    "items": (f"0/0: len(xs) == 2             # def h(xs): return sum(xs)  # x/reasons.py:38 in h{STACK}",
              {"xs": "list of 3"}, "new_length", "xs", "has 3 items; 2 were compiled", "torch.stack(xs)"),
    "items of a dict": ("0/0: len(d) != 1", {"d": "dict of 2"}, "new_length", "d", "has 2 items; 1 were",
                        "keep d to 1"),
    "keys": (f"0/0: list(dict.keys(d))[0] == 'a'             # ...  # x/reasons.py:41 in h2{STACK}", {"d": "dict of 1"},
             "new_keys", "d", "has other keys; `'a'` was", "the same keys in the same order as d"),
    "key": (f"0/0: ___dict_contains('a', s)             # ...  # x/more.py:49 in sett{STACK}", {"s": "dict of 1"},
            "new_keys", "s", "other keys; `'a'`", "same keys"),
    "member": (f"0/0: set.__contains__(s, 'a')             # ...  # x/more.py:49 in sett{STACK}", {"s": "set of 1"},
               "new_keys", "s", "other keys; `'a'`", "same keys"),
    "same tensor": ('0/0: Duplicate tensors found: ["x", "y"]', {"x": "float32[4]", "y": "float32[4]"}, "aliasing", "y",
                    "`x`, `y` are the same tensor", "pass y.clone()"),
    "other tensors": ("0/0: x is y             # def alr(x,y): return x+y  # x/more.py:18 in alr",
                      {"x": "float32[4]", "y": "float32[4]"}, "aliasing", "x", "`x` and `y` are different",
                      "y.clone()"),
    "backend": ("0/0: BACKEND_MATCH failure: torch.compile detected different backend callables. If this", X,
                "new_backend", None, "another backend", "call torch.compile once"),
    "freed": ("0/0: Cache line invalidated because L['m'] got deallocated", X, "freed", None, "`L['m']`", "alive"),
    "unknown": ("0/0: hasattr(cfg, 'later')             # ...  # a.py:3 in f", X, "unknown", None,
                "torch says: hasattr(cfg, 'later')", None),
}


@pytest.mark.parametrize(("text", "passed", "code", "argument", "says", "fix"), GUARDS.values(), ids=GUARDS)
def test_guards_in_words(text: str, passed: dict[str, str], code: str, argument: str | None, says: str,
                         fix: str | None) -> None:
    cause = explain_guard(text, passed)
    assert (cause.code, cause.argument) == (code, argument)
    assert says in cause.sentence, cause.sentence
    assert cause.fix is None if fix is None else fix in (cause.fix or ""), cause.fix
    assert "\n" not in cause.sentence and "0/" not in cause.sentence.replace("0/1 spec", "")


def test_every_code_has_a_text() -> None:
    of_no_guard = {"graph_break", "backward", "recompile_limit"}
    assert {code for _, _, code, *_ in GUARDS.values()} >= set(CODES) - of_no_guard


@pytest.mark.parametrize("text", ["", "0/0:", "tensor 'x'", "0/0: len(", "é" * 400, "0/0: x is ", "0/0: == 3"])
def test_torn_texts_are_shown_as_they_are(text: str) -> None:
    assert explain_guard(text, {}).code == "unknown"


def test_parts_of_a_guard() -> None:
    guard = read_guard(f"0/12: n == 3       # def g(x, n): return x*n  # x/reasons.py:33 in g{STACK}", {})
    assert (guard.compile_id, guard.check, guard.line) == ("0/12", "n == 3", 33)


def test_signatures_by_argument() -> None:
    text = "x: float32[dynamic, 16] cuda:0 strides (1, 4) requires_grad, n: int 3, m: Linear"
    assert arguments_of(text) == {"x": "float32[dynamic, 16] cuda:0 strides (1, 4) requires_grad", "n": "int 3",
                                  "m": "Linear"}
    assert changes("x: float64[4], n: int 3", "x: float32[4], n: int 3") == "x float32[4] → float64[4]"
    assert changes("x: float64[4]", "") == ""


PRINT = ("Failed to trace builtin operator\n  Explanation: Dynamo does not know how to trace builtin operator `print` "
         "with argument types ['str'] (has_kwargs False)\n  Hint: Avoid calling builtin `print` with argument types "
         "['str'].\n  Hint: If you are attempting to call a logging function")


def test_graph_breaks_and_cuda_graphs_in_words() -> None:
    assert break_text(PRINT) == ("Failed to trace builtin operator (`print`)",
                                 "Avoid calling builtin `print` with argument types ['str'].")
    assert break_text("call to item()") == ("call to item()", None)
    assert break_text("generic_jump TensorVariable()") == (
        "a branch on the value of a tensor",
        "Move the branch out of the compiled function, or use torch.where or torch.cond.")
    attributes = json.dumps({
        "graph_breaks": [{"reason": PRINT, "line": line, "function": "f", "times": 1} for line in (4, 9, 12, 20)],
        "cuda_graphs": [
            {"event": "record", "duration_ns": 5},
            {"event": "record again", "reason": "static input data pointer changed.\ninput name: primals_1. data "
             "pointer changed from 1 to 2. input stack trace: None\n", "duration_ns": 5},
            {"event": "record again", "reason": "other sizes of a dynamic shape", "duration_ns": 5},
            {"event": "skip", "reason": "skipping cudagraphs due to mutated inputs (1 instances). Found from : \n"}],
        "inductor": [{"kernels": ["triton_poi_fused_add_0"]}, {"kernels": ["triton_poi_fused_add_0", "triton_red_1"]}]})
    assert notes(attributes) == (
        "4 graph breaks: line 4: Failed to trace builtin operator (`print`); line 9: Failed to trace builtin operator "
        "(`print`); line 12: Failed to trace builtin operator (`print`); and 1 more; not run as a CUDA graph: mutated "
        "inputs (1 instances); CUDA graph recorded again (2 times): other sizes of a dynamic shape")
    assert kernels(attributes) == ["triton_poi_fused_add_0", "triton_red_1"]
    assert notes(None) == notes("[]") == "" and kernels("{}") == []


def test_inputs_whose_address_changed_are_named() -> None:
    reason = "static input data pointer changed.\ninput name: primals_1. data pointer changed from 1 to 2. input stack"
    attributes = json.dumps({"cuda_graphs": [{"event": "record again", "reason": reason}]})
    assert notes(attributes) == "CUDA graph recorded again: static input data pointer changed (primals_1)"


def test_kernels_that_inductor_has_generated_have_their_function_and_no_fix() -> None:
    script = Script()
    script.cell()
    script.rows["threads"] = [{"thread_id": 0, "ident": 1, "name": "MainThread"}]
    step = script.kernel("step", framework="torch.compile")
    fused = script.kernel("triton_poi_fused_add_0", framework="triton",
                          module="torch._inductor.runtime.compile_tasks.cabc")
    own = script.kernel("own", framework="triton")
    start, held = script.now, {"inductor": [{"kernels": ["triton_poi_fused_add_0"], "extern": ["addmm", "addmm"]}]}
    common = {"signature": "", "specialization_id": None, "reason_code": None, "launch_id": None}
    script.compilation(step, 9 * MS, start_ns=start, attributes=json.dumps(held), **common)
    script.compilation(fused, MS, start_ns=start + MS, trigger="compile", **common)
    script.compilation(fused, MS, start_ns=start + 3 * MS, trigger="compile", **common)
    script.compilation(fused, MS, start_ns=start + 10 * MS, trigger="compile", outcome="disk", **common)
    script.compilation(own, MS, start_ns=start + 12 * MS, trigger="compile", **common)
    found = {each.compilation_id: each for each in compilations(script.recording())}
    assert [found[at].reason for at in (1, 2, 3)] == [
        "torch's inductor has generated it for `step`",
        "torch's inductor has generated it for `step`, and tries another configuration of it",
        "not compiled: Triton's cache on disk had it; torch's inductor has generated it for a compiled function, and "
        "tries another configuration of it"]
    assert [each.fix is None for _, each in sorted(found.items())] == [True, True, True, True, False]
    assert found[0].kernels == ("triton_poi_fused_add_0", "extern addmm")
    assert functions_of_kernels(found.values()) == {"triton_poi_fused_add_0": ("step",)}
