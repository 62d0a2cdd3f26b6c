"""Why torch.compile compiled: torch's own texts of guards and graph breaks, as sentences about arguments, and fixes.

`explain_guard` reads one text such as ``0/1: tensor 'x' size mismatch at index 0. expected 16, actual 32``, as
``TORCH_LOGS=recompiles`` prints it; one that it does not know is shown as torch says it. Texts were recorded from torch
2.11. The codes, beside those of `kernelscope.analysis.compiles`:

``static_size``
    A size of a tensor was compiled in as a constant.
``size_condition``
    Sizes are dynamic, and a condition that the code puts on them does not hold.
``requires_grad``, ``new_keys``, ``new_length``, ``aliasing``
    Another one of an argument's properties: whether gradients are wanted, a dict's keys, how many items there are, and
    whether two tensors are the same.
``new_tensor_kind``
    A sparse tensor, one of ``inference_mode``, or the like.
``new_mode``
    A global mode, such as ``torch.no_grad()``.
``new_value``, ``new_global``, ``captured_value``, ``new_attribute``
    A value that was compiled in: of an argument, a global, a variable of an outer function, or an attribute.
``new_function``, ``new_object``, ``freed``
    Another function or object than the one that was compiled in, or that one is gone.
``new_backend``
    Another backend was given to ``torch.compile``.
``graph_break``
    What comes after a graph break is compiled as a function of its own.
``backward``
    The backward pass, which is compiled when it first runs.
``recompile_limit``
    torch gave up: there are too many compiles of the function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kernelscope.analysis.columns import items, json_object, mapping, texts
from kernelscope.recording.model import Recording
from kernelscope.units import counted, listed

if TYPE_CHECKING:
    from kernelscope.analysis.compiles import CompilationSummary

FRAMEWORK = "torch.compile"
#: Where inductor puts the kernels that it generates for Triton.
INDUCTOR_MODULES = "torch._inductor.runtime.compile_tasks."
CODES = (
    "static_size", "size_condition", "requires_grad", "new_keys", "new_length", "aliasing", "new_tensor_kind",
    "new_mode", "new_value", "new_global", "captured_value",
    "new_attribute", "new_function", "new_object", "freed", "new_backend",
    "graph_break", "backward", "recompile_limit",
)

_MOST_BREAKS = 3
_EXTERN = "extern "
_DTYPES = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
           "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool",
           "ComplexFloat": "complex64", "ComplexDouble": "complex128"}


@dataclass(frozen=True)
class Cause:
    """Why something was compiled again: a code, a sentence, the argument's name, and what would avoid it."""

    code: str
    sentence: str
    argument: str | None = None
    fix: str | None = None


@dataclass(frozen=True)
class Guard:
    """A guard that failed, read.

    Attributes
    ----------
    compile_id : str
        The compile that it guards, such as ``0/1``; an empty text where torch does not say.
    check : str
        The guard itself.
    note : str
        What torch says of it behind the line of code: hints, and where sizes come from.
    line : int or None
        The line of code that put it there.
    arguments : mapping of str to str
        What is known of the arguments that were passed: see `arguments_of`.
    """

    compile_id: str
    check: str
    note: str
    line: int | None
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])

    def argument(self, name: str) -> str | None:
        """Return the argument that an expression such as ``xs[0]`` begins with; None where it does with another."""
        root = re.match(r"\w+", name)
        return root[0] if root and root[0] in self.arguments else None

    def called(self, name: str) -> str:
        """Return how to call what an expression is of: "argument `x`", or the expression."""
        return f"argument `{name}`" if name in self.arguments else f"`{name}`"

    def passed(self, name: str) -> str | None:
        """Return what was passed as the argument of that name; None where it is not known."""
        return self.arguments.get(name)


def read_guard(text: str, arguments: Mapping[str, str]) -> Guard:
    """Read one of torch's texts of a guard that failed."""
    found = re.match(r"\[?(!?\d[\d/_-]*)\]?: ", text)
    rest = text[found.end():] if found else text
    rest = rest.partition("\nUser stack trace:")[0]
    check, _, note = rest.partition("  # ")
    line = re.search(r":(\d+) in ", note)
    return Guard(found[1] if found else "", check.strip(), note, int(line[1]) if line else None, arguments)


def explain_guard(text: str, arguments: Mapping[str, str]) -> Cause:
    """Return why a compile was needed, of torch's text of the guard that failed.

    Parameters
    ----------
    text : str
        Such as ``0/0: tensor 'x' dtype mismatch. expected Float, actual Double``.
    arguments : mapping of str to str
        What was passed: see `arguments_of`.
    """
    guard = read_guard(text, arguments)
    for pattern, explain in _GUARDS:
        found = re.match(pattern, guard.check, re.DOTALL)
        if found:
            return explain(guard, found)
    return Cause("unknown", f"torch says: {guard.check}")


def arguments_of(signature: str) -> dict[str, str]:
    """Return what a signature says of each argument: ``{"x": "float32[16, 4]", "n": "int 3"}``."""
    return {found[1]: found[2] for found in re.finditer(r"(\w+): (.*?)(?=, \w+: |$)", signature)}


def changes(signature: str, nearest: str, names: tuple[str, ...] = ()) -> str:
    """Return how the arguments of two signatures differ, in brief: ``x float32[16, 4] → float64[16, 4]``."""
    known = arguments_of(nearest)
    found = [f"{name} {known[name]} → {text}" for name, text in arguments_of(signature).items()
             if name in known and known[name] != text]
    return listed(found, _MOST_BREAKS, between="; ")


#: A branch that needs the value of a tensor, and what to do.
_BRANCH = ("a branch on the value of a tensor",
           "Move the branch out of the compiled function, or use torch.where or torch.cond.")


def break_text(reason: str) -> tuple[str, str | None]:
    """Return a graph break's reason in brief, and torch's first hint at what to do; both mostly in torch's words."""
    title = reason.strip().partition("\n")[0]
    if title.startswith("generic_jump TensorVariable("):  # a name of dynamo's, without an explanation
        return _BRANCH
    explanation = re.search(r"Explanation: (.*)", reason)
    about = re.search(r"`[^`]+`", explanation[1]) if explanation else None
    hint = re.search(r"Hint: (.*)", reason)
    return f"{title} ({about[0]})" if about and about[0] not in title else title, hint[1].strip() if hint else None


def notes(attributes: str | None) -> str:
    """Return what else there is to say of a compile: graph breaks, CUDA graphs that were not or again recorded."""
    held = json_object(attributes)
    breaks = [mapping(each) for each in items(held.get("graph_breaks"))]
    parts: list[str] = []
    if breaks:
        told = [f"line {each.get('line')}: {break_text(str(each.get('reason')))[0]}" for each in breaks[:_MOST_BREAKS]]
        lines = listed(told, more=len(breaks) - len(told), between="; ")
        parts.append(f"{counted(len(breaks), 'graph break')}: {lines}")
    events = [mapping(each) for each in items(held.get("cuda_graphs"))]
    for event, words in (("skip", "not run as a CUDA graph"), ("record again", "CUDA graph recorded again")):
        chosen = [str(each.get("reason")) for each in events if each.get("event") == event]
        if chosen:
            times = f" ({len(chosen)} times)" if len(chosen) > 1 else ""
            # A reason of CUDA graph trees in a line: what changed, and which input.
            text = chosen[-1]
            inputs = re.findall(r"input name: (\S+?)\.", text)
            brief = text.partition("\n")[0].rstrip(".").removeprefix("skipping cudagraphs due to ")
            brief = brief.partition(". Found from")[0]
            graph_reason = f"{brief} ({listed(list(dict.fromkeys(inputs)), _MOST_BREAKS)})" if inputs else brief
            parts.append(f"{words}{times}: {graph_reason}")
    return "; ".join(parts)


def kernels(attributes: str | None) -> list[str]:
    """Return the names of the kernels that inductor has generated for a compile, then of libraries' that it calls.

    Each is there once; a library's as ``extern addmm``, which is the operator's name and not that of a kernel.
    """
    graphs = [mapping(graph) for graph in items(json_object(attributes).get("inductor"))]
    own = [name for graph in graphs for name in texts(graph.get("kernels"))]
    called = [f"{_EXTERN}{name}" for graph in graphs for name in texts(graph.get("extern"))]
    return list(dict.fromkeys([*own, *called]))


def functions_of_kernels(compiles: Iterable[CompilationSummary]) -> dict[str, tuple[str, ...]]:
    """Return the functions that torch has compiled to kernels of each name: inductor's names are not unique."""
    found: dict[str, dict[str, None]] = {}
    for each in sorted(compiles, key=lambda each: each.compilation_id):
        for kernel in each.kernels:
            if not kernel.startswith(_EXTERN):
                found.setdefault(kernel, {})[each.name] = None
    return {kernel: tuple(functions) for kernel, functions in found.items()}


def reasons(recording: Recording) -> dict[int, dict[str, Any]]:
    """Return, by compilation_id, the columns of ``compilations`` that say why each compile of torch was needed."""
    functions = {row["dispatcher_id"]: row for row in recording.rows("dispatchers") if row["framework"] == FRAMEWORK}
    rows = [row for row in recording.rows("compilations") if row["dispatcher_id"] in functions]
    known: dict[tuple[int, str], str] = {}
    hints: dict[tuple[str, str, int], str] = {}
    found: dict[int, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["start_ns"]):
        function, attributes = functions[row["dispatcher_id"]], json_object(row["attributes"])
        nearest = None
        guards = texts(attributes.get("guards"))
        if guards:
            nearest = known.get((row["dispatcher_id"], read_guard(guards[0], {}).compile_id))
        cause = _cause(row, attributes, guards, function, hints)
        found[row["compilation_id"]] = {"reason_code": cause.code, "reason": cause.sentence, "fix": cause.fix,
                                        "argument": cause.argument, "nearest_signature": nearest}
        if row["outcome"] != "failed" and not attributes.get("backward"):
            known[row["dispatcher_id"], str(attributes.get("compile_id"))] = row["signature"]
        for each in map(mapping, items(attributes.get("graph_breaks"))):
            hint = break_text(str(each.get("reason")))[1]
            if hint and each.get("line") is not None:
                hints[str(function["filename"]), str(each.get("function")), int(each["line"])] = hint
    found.update(_of_inductor(recording, rows, functions))
    return found


def _of_inductor(recording: Recording, compiles: Sequence[Mapping[str, Any]],
                 functions: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """Why Triton compiled kernels that inductor has generated: nobody can call those otherwise."""
    kernels = {row["dispatcher_id"] for row in recording.rows("dispatchers")
               if str(row["module"]).startswith(INDUCTOR_MODULES)}
    found: dict[int, dict[str, Any]] = {}
    known: set[int] = set()
    if not kernels:
        return found
    for row in sorted(recording.rows("compilations"), key=lambda row: row["start_ns"]):
        kernel = row["dispatcher_id"]
        if kernel not in kernels:
            continue
        around = [each for each in compiles if each["thread_id"] == row["thread_id"] and each["end_ns"] is not None
                  and each["start_ns"] <= row["start_ns"] <= each["end_ns"]]
        function = f"`{functions[around[-1]['dispatcher_id']]['name']}`" if around else "a compiled function"
        sentence = f"torch's inductor has generated it for {function}"
        if kernel in known:
            sentence += ", and tries another configuration of it"
        if row["outcome"] == "disk":
            sentence = f"not compiled: Triton's cache on disk had it; {sentence}"
        found[row["compilation_id"]] = {"reason_code": "disk" if row["outcome"] == "disk" else "first_use",
                                        "reason": sentence, "fix": None, "argument": None, "nearest_signature": None}
        known.add(kernel)
    return found


def _cause(row: Mapping[str, Any], attributes: Mapping[str, Any], guards: list[str], function: Mapping[str, Any],
           hints: Mapping[tuple[str, str, int], str]) -> Cause:
    cause = _first(attributes, function, hints)
    if guards:
        given = {**arguments_of(row["signature"]), **mapping(attributes.get("arguments"))}
        cause = explain_guard(guards[0], given)
        if len(guards) > 1:
            cause = replace(cause, sentence=f"{cause.sentence} (of {len(guards)} compiled versions, the last one used)")
    if row["outcome"] == "disk":
        again = f", and is traced again because {cause.sentence}" if guards else ""
        return replace(cause, code="disk", sentence=f"not compiled: inductor's cache on disk had the graph{again}",
                       fix=cause.fix if guards else None)
    if row["outcome"] != "failed":
        return cause
    error = str(row["error"] or "it raised")
    if "recompile limit" in error.lower() or "FailOnRecompileLimitHit" in error:
        return _limit(cause, len(guards))
    return replace(cause, sentence=f"{cause.sentence}; the compile failed: {error}", fix=None)


def _first(attributes: Mapping[str, Any], function: Mapping[str, Any],
           hints: Mapping[tuple[str, str, int], str]) -> Cause:
    """Why something was compiled that had not been before."""
    if attributes.get("backward"):
        return Cause("backward", f"the backward pass of compile {attributes.get('compile_id')}, which ran for the "
                                 "first time")
    resumed = re.match(r"(.+) \(resumed at line (\d+)\)$", str(function["name"]))
    if resumed is None:
        return Cause("first_use", "its first use")
    hint = hints.get((str(function["filename"]), resumed[1], int(resumed[2])))
    return Cause("graph_break", f"what comes after the graph break at line {resumed[2]} of `{resumed[1]}` is compiled "
                                "on its own", None, f"avoid the graph break: {hint}" if hint else None)


def _limit(cause: Cause, compiled: int) -> Cause:
    last = f"; the last time, {cause.sentence}" if cause.code != "first_use" else ""
    fix = f"{cause.fix}; " if cause.fix else ""
    return Cause(
        "recompile_limit", f"torch has compiled it {compiled or 'too many'} times, which is the limit "
        f"(recompile_limit), and runs it without compiling where none of them fits{last}", cause.argument,
        f"{fix}only where each of these compiles is needed, torch._dynamo.config.recompile_limit = "
        f"{2 * compiled or 16}")


# One function for each kind of guard.

def _size(guard: Guard, found: re.Match[str]) -> Cause:
    name, at, was, now = found["name"], found["at"], found["expected"], found["actual"]
    sentence = f"size {at} of {guard.called(name)} is {now}, and {was} was compiled in as a constant"
    if {was, now} & {"0", "1"}:
        sentence += "; torch always compiles sizes of 0 and 1 in"
        return Cause("static_size", sentence, guard.argument(name), _unbacked(name, at))
    return Cause("static_size", sentence, guard.argument(name),
                 f"torch._dynamo.mark_dynamic({name}, {at}) before the first call, or torch.compile(..., dynamic=True)")


def _unbacked(name: str, at: str) -> str:
    return (f"torch._dynamo.decorators.mark_unbacked({name}, {at}) before every call, where the function does not "
            "branch on that size; or pad it to 2 or more")


def _rank(guard: Guard, found: re.Match[str]) -> Cause:
    name, was, now = found["name"], found["expected"], found["actual"]
    return Cause("new_dimensions", f"{guard.called(name)} has {counted(int(now), 'dimension')}; {was} were compiled",
                 guard.argument(name), f"pass {name} with {counted(int(was), 'dimension')} in every call, with view or "
                 "unsqueeze: their number is always compiled in")


def _dtype(guard: Guard, found: re.Match[str]) -> Cause:
    name = found["name"]
    was, now = (_DTYPES.get(found[each], found[each]) for each in ("expected", "actual"))
    return Cause("new_dtype", f"{guard.called(name)} is {now}; {was} was compiled", guard.argument(name),
                 f"pass {name}.to(torch.{was})")


def _stride(guard: Guard, found: re.Match[str]) -> Cause:
    name, at, was, now = found["name"], found["at"], found["expected"], found["actual"]
    is_strided = "strides" in (guard.passed(name) or "")
    fix = f"pass {name}.contiguous()" + ("" if is_strided else " in every call")
    return Cause("new_layout", f"stride {at} of {guard.called(name)} is {now}, and {was} was compiled in"
                 + (": it is not contiguous" if is_strided else ""), guard.argument(name), fix)


def _requires_grad(guard: Guard, found: re.Match[str]) -> Cause:
    name, was = found["name"], found["expected"].removeprefix("requires_grad=")
    if was == "0":
        return Cause("requires_grad", f"{guard.called(name)} requires a gradient; it did not when it was compiled",
                     guard.argument(name), f"pass {name}.detach() where its gradient is not needed")
    return Cause("requires_grad", f"{guard.called(name)} requires no gradient; it did when it was compiled",
                 guard.argument(name), f"pass {name}.requires_grad_() in every call")


def _keys(guard: Guard, found: re.Match[str]) -> Cause:
    name = found["name"]
    was, now = (re.sub(r".*?\(|\)", "", found[each]).split(", ") for each in ("expected", "actual"))
    device, other = (each[0].removeprefix("Sparse").removeprefix("Mkldnn") for each in (was, now))
    if device != other:
        return Cause("new_device", f"{guard.called(name)} is on {other.lower()}; {device.lower()} was compiled",
                     guard.argument(name), f'pass {name}.to("{device.lower()}")')
    was_tracked, is_tracked = (any(key.startswith("Autograd") for key in keys) for keys in (was, now))
    if was_tracked and not is_tracked:
        return Cause("new_tensor_kind", f"{guard.called(name)} was made in torch.inference_mode(); a tensor of another "
                     "mode was compiled", guard.argument(name), f"pass {name}.clone(), made outside of "
                     "torch.inference_mode(), or make every call in it")
    return Cause("new_tensor_kind", f"{guard.called(name)} is a tensor of another kind ({', '.join(now)}; "
                 f"{', '.join(was)} was compiled)", guard.argument(name))


def _device_index(guard: Guard, found: re.Match[str]) -> Cause:
    name, was, now = found["name"], found["expected"], found["actual"]
    return Cause("new_device", f"{guard.called(name)} is on device {now}; device {was} was compiled",
                 guard.argument(name), f'pass {name}.to("cuda:{was}")')


def _no_tensor(guard: Guard, found: re.Match[str]) -> Cause:
    name, now = found["name"], found["actual"].rpartition(".")[2]
    fix = {"Parameter": f"pass {name}.detach()", "ndarray": f"pass torch.from_numpy({name})",
           "float": f"pass torch.tensor({name})", "int": f"pass torch.tensor({name})"}.get(now)
    return Cause("new_type", f"{guard.called(name)} is of the type {now}; a tensor was compiled", guard.argument(name),
                 fix or f"pass a tensor as {name} in every call, or call once with each ahead of time")


def _mode(guard: Guard, found: re.Match[str]) -> Cause:
    name = found["name"].strip()
    words = {"grad_mode": ("gradients are on where they were off, or off where they were on (torch.no_grad)",
                           "make every call under torch.no_grad(), or none"),
             "num_threads": ("torch.set_num_threads has changed the number of threads",
                             "call torch.set_num_threads before the first call"),
             "default_dtype": ("torch.set_default_dtype has changed the default dtype",
                               "call torch.set_default_dtype before the first call"),
             "deterministic_algorithms": ("torch.use_deterministic_algorithms has changed",
                                          "call torch.use_deterministic_algorithms before the first call")}
    if name.startswith("autocast"):
        return Cause("new_mode", f"torch.autocast has changed ({name})", None,
                     "make every call under torch.autocast, or none")
    sentence, fix = words.get(name, (f"a global setting has changed: {name}", f"set {name} before the first call"))
    return Cause("new_mode", sentence, None, fix)


def _same_tensors(guard: Guard, found: re.Match[str]) -> Cause:
    names = re.findall(r'"([^"]+)"', found["names"])
    told = listed([f"`{each}`" for each in names])
    return Cause("aliasing", f"{told} are the same tensor; different ones were compiled",
                 guard.argument(names[-1]) if names else None, f"pass {names[-1]}.clone()" if names else None)


def _other_tensors(guard: Guard, found: re.Match[str]) -> Cause:
    first, second = found["first"], found["second"]
    if not re.match(r"\w", second) or second in ("None", "True", "False"):
        return _value(guard, found)
    return Cause("aliasing", f"`{first}` and `{second}` are different; the same one was passed for both when it was "
                 "compiled", guard.argument(first), f"make the first call with different ones: {second}.clone()")


def _length(guard: Guard, found: re.Match[str]) -> Cause:
    name, was = found["name"], found["expected"]
    passed = re.match(r"(?:list|tuple|dict|set) of (\d+)", guard.passed(name) or "")
    now = f"has {counted(int(passed[1]), 'item')}" if passed else "has another number of items"
    kind = (guard.passed(name) or "").partition(" ")[0]
    fix = f"pass one tensor, torch.stack({name})" if kind in ("list", "tuple") else f"keep {name} to {was} items"
    return Cause("new_length", f"{guard.called(name)} {now}; {was} were compiled", guard.argument(name),
                 f"{fix}: the number is always compiled in")


def _key(guard: Guard, found: re.Match[str]) -> Cause:
    name = found["name"]
    return Cause("new_keys", f"{guard.called(name)} has other keys; `{found['key']}` was compiled in",
                 guard.argument(name), f"pass the same keys in the same order as {name} in every call")


def _type(guard: Guard, found: re.Match[str]) -> Cause:
    name, was = found["name"], found["type"].rpartition(".")[2]
    passed = (guard.passed(name) or "").partition(" ")[0].partition("[")[0]
    now = f"is of the type {passed}" if passed else "is of another type"
    return Cause("new_type", f"{guard.called(name)} {now}; {was} was compiled", guard.argument(name),
                 f"pass {'an' if was[0] in 'aeiou' else 'a'} {was} as {name} in every call")


def _object(guard: Guard, found: re.Match[str]) -> Cause:
    name, kind = found["name"], found["type"]
    is_code = name.endswith(".__code__")
    if is_code or "function" in kind or "method" in kind:
        name = name.removesuffix(".__code__")
        return Cause("new_function", f"{guard.called(name)} is another function than the one that was compiled in",
                     guard.argument(name), f"define what is passed as {name} once, outside of loops, and pass the same "
                     "one in every call")
    return Cause("new_object", f"{guard.called(name)} is another object than the one that was compiled in "
                 f"({kind})", guard.argument(name), f"pass the same object as {name} in every call")


def _value(guard: Guard, found: re.Match[str]) -> Cause:
    name, was = (found["name"], found["expected"]) if "name" in found.re.groupindex else (found["first"],
                                                                                          found["second"])
    is_number = _is_number(was)
    of_a_global = re.fullmatch(r"G\['(\w+)'\]", name)
    captured = re.search(r"HINT: guard on \"(\w+)\"", guard.note)
    if of_a_global:
        name = of_a_global[1]
        fix = (f"hold it in a tensor: {name} = torch.tensor({was})" if is_number else
               f"pass it as an argument, or leave {name} as it is: each of its values is compiled")
        return Cause("new_global", f"the global `{name}` has changed; {was} was compiled in", None, fix)
    if captured:
        fix = f"hold it in a tensor: {captured[1]} = torch.tensor({was})" if is_number else None
        function = name.partition(".__closure__")[0]
        return Cause("captured_value", f"`{captured[1]}`, a variable that `{function}` captures, has changed; {was} "
                     "was compiled in", guard.argument(name), fix)
    if name.endswith(".training"):
        return Cause("new_attribute", f"the module is in another mode, train() or eval(); `{name}` was {was} when "
                     "it was compiled", guard.argument(name),
                     "make every call in one mode, or one call in each ahead of time")
    if name not in guard.arguments:
        return Cause("new_attribute", f"`{name}` has changed; {was} was compiled in", guard.argument(name),
                     f"hold it in a tensor: {name} = torch.tensor({was})" if is_number else
                     f"leave {name} as it is: each of its values is compiled")
    passed = guard.passed(name) or ""
    now = f"is {passed.partition(' ')[2]}" if re.match(r"(?:int|float|bool) ", passed) else (
        f"is a {passed.partition('[')[0]} tensor" if "[" in passed else "has another value")
    fix = (f"torch.compile(..., dynamic=True), or pass a tensor: torch.tensor({name})" if is_number else
           f"pass few values as {name}, and call once with each ahead of time: each is compiled")
    return Cause("new_value", f"{guard.called(name)} {now}, and {was} was compiled in as a constant", name, fix)


def _sizes(guard: Guard, found: re.Match[str]) -> Cause:
    where = re.search(r"(\w+(?:\[[^\]]*\])?)\.size\(\)\[(\d+)\]", guard.check)
    name, at = (where[1], where[2]) if where else ("", "")
    only_two = re.fullmatch(r"2 <= [^<>=]+", guard.check)
    sentence = f"what was compiled with dynamic sizes holds only where `{guard.check}`"
    if only_two and where:
        return Cause("size_condition", f"{sentence}; torch always compiles sizes of 0 and 1 in", guard.argument(name),
                     _unbacked(name, at))
    if guard.line is not None:
        sentence += f", by the code at line {guard.line}"
    number = re.search(r"[A-Za-z_]\w*", guard.check)
    about = name if where else number[0] if number else ""
    return Cause("size_condition", sentence, guard.argument(about),
                 "call once with sizes on each side of it ahead of time: either compile is kept")


def _backend(guard: Guard, found: re.Match[str]) -> Cause:
    return Cause("new_backend", "torch.compile was given another backend for the same function", None,
                 "call torch.compile once, outside of loops, and keep what it returns")


def _freed(guard: Guard, found: re.Match[str]) -> Cause:
    return Cause("freed", f"`{found['name']}`, which was compiled in, is gone", None,
                 "keep the object alive, and pass the same one in every call")


def _is_number(text: str) -> bool:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return isinstance(value, int | float) and not isinstance(value, bool)


_TENSOR = r"tensor '(?P<name>.+?)' "
_CHANGED = r"expected (?P<expected>.*?), actual (?P<actual>.*)"
#: Torch's texts, in the order in which they are tried.
_GUARDS: Iterable[tuple[str, Callable[[Guard, re.Match[str]], Cause]]] = (
    (_TENSOR + r"size mismatch at index (?P<at>\d+)\. " + _CHANGED, _size),
    (_TENSOR + r"stride mismatch at index (?P<at>\d+)\. " + _CHANGED, _stride),
    (_TENSOR + r"rank mismatch\. " + _CHANGED, _rank),
    (_TENSOR + r"dtype mismatch\. " + _CHANGED, _dtype),
    (_TENSOR + r"requires_grad mismatch\. expected (?P<expected>requires_grad=\d)", _requires_grad),
    (_TENSOR + r"dispatch key set mismatch\. expected (?P<expected>DispatchKeySet\(.*?\)), actual (?P<actual>.*)",
     _keys),
    (_TENSOR + r"Tensor device index mismatch\. Expected device index to be (?P<expected>-?\d+), actual "
     r"(?P<actual>-?\d+)", _device_index),
    (r"expected type of '(?P<name>.+?)' to be a tensor type, ' but found <class '(?P<actual>.+?)'>", _no_tensor),
    (r"GLOBAL_STATE changed: (?P<name>.+)", _mode),
    (r"Duplicate tensors? found: \[(?P<names>.*)\]", _same_tensors),
    (r"BACKEND_MATCH failure", _backend),
    (r"Cache line invalidated because (?P<name>.+) got deallocated", _freed),
    (r"___check_type_id\((?P<name>.+), \d+\), type=<class '(?P<type>.+?)'>", _type),
    (r"___check_obj_id\((?P<name>.+), \d+\), type=(?P<type>.+)", _object),
    (r"list\(dict\.keys\((?P<name>.+)\)\)\[\d+\] == (?P<key>.+)", _key),
    (r"(?:not )?___dict_contains\((?P<key>.+?), (?P<name>.+)\)", _key),
    (r"(?:not )?set\.__contains__\((?P<name>.+), (?P<key>.+?)\)", _key),
    (r"len\((?P<name>.+)\) [!=]= (?P<expected>\d+)$", _length),
    (r".*\.(?:size|stride|storage_offset)\(\)", _sizes),
    (r"(?P<first>[\w.\[\]']+) is (?P<second>[\w.\[\]']+)$", _other_tensors),
    (r"(?P<name>[\w.\[\]'\"]+) == (?P<expected>[^=].*)$", _value),
    (r"[^<>]*\w+ <=? \w+|\w+ <=? \d+", _sizes),
)
