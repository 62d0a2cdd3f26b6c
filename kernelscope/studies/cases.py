"""The cases of a study: the built-in launches, declared as data, and `case`, which makes a user's own."""

from __future__ import annotations

import inspect
import linecache
import re
import string
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from types import CodeType
from typing import Any, cast

from kernelscope.errors import StudyArgumentError
from kernelscope.schema import DETAILS
from kernelscope.studies.target import check_paths, check_text, is_whole, shown
from kernelscope.suggestions import did_you_mean


@dataclass(frozen=True)
class Case:
    """One launch to measure, as source text that the process of a target runs, or as a callable of this process.

    The texts run in one namespace, which has ``cuda`` (``numba.cuda``, or ``numba_cuda_mlir.cuda``), ``np``, and
    ``Unavailable``, an exception whose text says why the case cannot run in this target.

    Attributes
    ----------
    name : str
        What to call it; unique in a study.
    statement : str
        What one launch is. It is timed many times in a loop.
    setup : str
        What comes before, once in each process: kernels, arrays, launch configurations.
    args : int or None
        How many arguments the kernel gets, where that is what tells cases apart.
    group : str
        Which cases it belongs with: ``empty``, ``arguments``, ``many``, ``signature``, ``configure``, ``stream``,
        ``callbacks``, ``capture``, ``launch-config``, ``graph``, ``recording``, or ``own``.
    against : str or None
        The name of a case that this one is also compared with, in the same target.
    before, after : str
        What comes directly before and after each batch of loops, untimed: begin a capture, end it.
    most_loops : int or None
        The most loops that a batch may have, such as nodes of a capture.
    needs : tuple of str
        Modules that a target must have, besides the framework and NumPy.
    function : callable or None
        In the place of `statement`: a callable of this process, which only this process can measure.
    """

    name: str
    statement: str = ""
    setup: str = ""
    args: int | None = None
    group: str = "own"
    against: str | None = None
    before: str = ""
    after: str = ""
    most_loops: int | None = None
    needs: tuple[str, ...] = ()
    function: Callable[[], Any] | None = None

    @property
    def is_live(self) -> bool:
        """Whether it is a callable of this process."""
        return self.function is not None


# Cases that tell arguments apart.

#: What the kinds of arguments are compared with: as many device arrays.
ARRAYS = 4


def empty(count: int) -> Case:
    """Return the case of an empty kernel with `count` device arrays of one float32, launched 1x1."""
    names = [f"a{number}" for number in range(count)]
    return Case(args_name(count), f"held({', '.join(names)})", _kernel(names) + _arrays(names), count, "empty")


def args_name(count: int) -> str:
    """Return what the case of an empty kernel with `count` arguments is called."""
    return f"{count} arg" if count == 1 else f"{count} args"


def argument_cases() -> list[Case]:
    """Return the cases of the groups ``arguments``, ``many`` and ``signature``."""
    four = [f"a{number}" for number in range(ARRAYS)]
    reference, letters = args_name(ARRAYS), list(string.ascii_lowercase)

    def kind(name: str, values: str, needs: tuple[str, ...] = ()) -> Case:
        return Case(name, f"held({', '.join(four)})", _kernel(four) + values, ARRAYS, "arguments", reference,
                    needs=needs)

    return [
        kind("4 ints", "a0, a1, a2, a3 = 1, 2, 3, 4\n"),
        kind("4 floats", "a0, a1, a2, a3 = 1.5, 2.5, 3.5, 4.5\n"),
        kind("4 tuples", "a0, a1, a2, a3 = (1, 2), (3, 4), (5, 6), (7, 8)\n"),
        kind("4 host arrays", "".join(f"{name} = np.zeros(1, np.float32)\n" for name in four)),
        kind("4 torch tensors", _TORCH, ("torch",)),
        kind("4 cupy arrays", _CUPY, ("cupy",)),
        kind("mixed", _arrays(four[:2]) + "a2, a3 = 3, 4.5\n"),
        Case("26 args", f"held({', '.join(letters)})", _kernel(letters) + _arrays(letters), 26, "many", reference),
        Case("eager signature", f"held({', '.join(four)})",
             _kernel(four, '"void(float32[::1], float32[::1], float32[::1], float32[::1])"') + _arrays(four), ARRAYS,
             "signature", reference),
    ]


def _kernel(names: list[str], signature: str = "") -> str:
    decorator = f"@cuda.jit({signature})" if signature else "@cuda.jit"
    return f"{decorator}\ndef kernel({', '.join(names)}):\n    pass\n\nheld = kernel[1, 1]\n"


def _arrays(names: list[str]) -> str:
    return "".join(f"{name} = cuda.device_array(1, np.float32)\n" for name in names)


# Both libraries can be installed where they cannot be used: without CUDA in the build, or on a dry run.
_TORCH = """\
import torch

if not torch.cuda.is_available():
    raise Unavailable("torch is there, and sees no GPU")
a0, a1, a2, a3 = (torch.zeros(1, dtype=torch.float32, device="cuda") for _ in range(4))
"""

_CUPY = """\
import cupy

try:
    a0, a1, a2, a3 = (cupy.zeros(1, np.float32) for _ in range(4))
except Exception as error:
    raise Unavailable(f"cupy is there, and cannot make an array: {type(error).__name__}: {error}") from None
"""


# Cases that compare launches of the same four device arrays.

_REFERENCE = args_name(ARRAYS)
_LAUNCH = empty(ARRAYS).statement
_SETUP = empty(ARRAYS).setup
_STREAM = _SETUP + "stream = cuda.stream()\nheld = kernel[1, 1, stream]\n"

#: Launches after which the interpreter has adapted to hooks that came or went.
_ADAPTED = 100
#: A capture of more nodes takes long to end, and 1,000 launches take some milliseconds.
_MOST_NODES = 1000


def launch_cases() -> list[Case]:
    """Return the cases of all groups but those that tell arguments apart."""
    return [
        Case("configured each time", "kernel[1, 1](a0, a1, a2, a3)", _SETUP, ARRAYS, "configure", _REFERENCE),
        Case("explicit stream", _LAUNCH, _STREAM, ARRAYS, "stream", _REFERENCE),
        _callbacks(1),
        _callbacks(4),
        Case("capturing stream", _LAUNCH, _STREAM + _CAPTURE, ARRAYS, "capture", "explicit stream",
             before="begin_capture()", after="end_capture()", most_loops=_MOST_NODES),
        Case("launch-config sensitive", _LAUNCH, _sensitive(_SETUP), ARRAYS, "launch-config", _REFERENCE),
        graph(1),
        graph(20),
        launches(20),
        unrecorded(),
        *(recorded(detail) for detail in DETAILS),
    ]


def graph(kernels: int) -> Case:
    """Return the case of one launch of a CUDA graph of `kernels` empty kernels with four arrays, one after the other.

    It is compared with `launches` of as many kernels; for one kernel, with an explicit stream.

    Raises
    ------
    ValueError
        If `kernels` is less than 1.
    """
    _check(kernels)
    name = f"graph of {kernels} kernel{'' if kernels == 1 else 's'}"
    against = "explicit stream" if kernels == 1 else f"{kernels} launches"
    return Case(name, "graph.launch(graph_stream)", f"{_SETUP}KERNELS = {kernels}\n{_GRAPH}", ARRAYS, "graph", against)


def launches(kernels: int) -> Case:
    """Return the case of `kernels` launches of an empty kernel with four arrays on one stream.

    Its time is that of all of them together, so that it can be compared with the graph of as many.

    Raises
    ------
    ValueError
        If `kernels` is less than 1.
    """
    _check(kernels)
    if kernels == 1:
        return Case("1 launch", _LAUNCH, _STREAM, ARRAYS, "graph")
    # Written out: a loop in the statement would be counted too.
    return Case(f"{kernels} launches", "\n".join([_LAUNCH] * kernels), _STREAM, ARRAYS, "graph",
                most_loops=max(1, _MOST_NODES // kernels))


def recorded(detail: str, count: int = ARRAYS) -> Case:
    """Return the case of an empty kernel with `count` device arrays whose launches KernelScope records, without CUPTI.

    It is compared with `unrecorded` of as many. What a recording does once is in no timed loop: it looks up a kernel at
    its first launch, and the interpreter adapts its instructions anew where hooks come and go.

    Parameters
    ----------
    detail : str
        ``launch`` or ``phases``, as `Recorder` has them.
    count : int
        Arrays that the kernel takes.

    Raises
    ------
    ValueError
        If there is no such detail.
    """
    if detail not in DETAILS:
        raise ValueError(f"the detail {detail!r} is not one of {', '.join(DETAILS)}")
    bare = empty(count)
    warm = _repeated(bare.statement, _ADAPTED)
    setup = f"{bare.setup}DETAIL = {detail!r}\n{_RECORDED.format(launch=bare.statement)}"
    return Case(f"{bare.name} + recorder ({detail})", bare.statement, setup, count, "recording",
                unrecorded(count).name, before=f"begin_recording()\n{warm}\ncuda.synchronize()",
                after=f"recorder.stop()\n{warm}", needs=("kernelscope",))


def unrecorded(count: int = ARRAYS) -> Case:
    """Return the case that `recorded` is compared with: `empty`, launched as often before its timed loops."""
    bare = empty(count)
    warm = _repeated(bare.statement, _ADAPTED)
    return Case(f"{bare.name} + no recorder", bare.statement, bare.setup, count, "recording",
                before=f"{warm}\ncuda.synchronize()", after=warm)


def _repeated(statement: str, times: int) -> str:
    return f"for _ in range({times}):\n    {statement}"


def _check(kernels: int) -> None:
    if kernels < 1:
        raise ValueError(f"a graph of {kernels} kernels: it needs at least 1")


def _callbacks(count: int) -> Case:
    name = "1 pre-launch callback" if count == 1 else f"{count} pre-launch callbacks"
    return Case(name, _LAUNCH, f"{_SETUP}CALLBACKS = {count}\n{_CALLBACKS}", ARRAYS, "callbacks", _REFERENCE)


def _sensitive(setup: str) -> str:
    """Return `setup` with a kernel that is marked as launch-config sensitive while it is compiled."""
    return _SENSITIVE + setup.replace("def kernel(", "def sensitive_kernel(").replace(
        "kernel[1, 1]", "sensitive_kernel[1, 1]")


# The configuration is no other case's, although configurations are cached: its kernel is not.
_CALLBACKS = """\
if not hasattr(held, "pre_launch_callbacks"):
    raise Unavailable("its launch configurations have no pre_launch_callbacks (numba-cuda has them since 0.30)")

def callback(kernel, launch_config):
    pass

held.pre_launch_callbacks.extend([callback] * CALLBACKS)
"""

# With the driver's own calls, which all versions have: a GraphBuilder is no stream in some of them.
_CAPTURE = """\
try:
    from cuda.bindings import driver
except ImportError:
    raise Unavailable("it has no cuda.bindings, which capture a stream") from None

def checked(answer):
    if int(answer[0]) != 0:
        raise RuntimeError(f"the driver answers {answer[0]!r}")
    return answer[1] if len(answer) > 1 else None

handle = getattr(stream, "handle", 0)
handle = int(getattr(handle, "value", handle) or 0)
if not handle:
    raise Unavailable(f"its stream, a {type(stream).__name__}, has no handle to capture")
capturing = driver.CUstream(handle)

def begin_capture():
    checked(driver.cuStreamBeginCapture(capturing, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))

def end_capture():
    checked(driver.cuGraphDestroy(checked(driver.cuStreamEndCapture(capturing))))

held(a0, a1, a2, a3)
stream.synchronize()
"""

_GRAPH = """\
try:
    from cuda.core import Device
except ImportError:
    try:
        from cuda.core.experimental import Device
    except ImportError:
        raise Unavailable("it has no cuda.core, which builds the graph") from None

held(a0, a1, a2, a3)
cuda.synchronize()
device = Device()
device.set_current()
graph_stream = device.create_stream()
if not hasattr(device, "create_graph_builder"):
    raise Unavailable("its cuda.core has no graphs")
builder = device.create_graph_builder()
builder.begin_building()
captured = kernel[1, 1, cuda.external_stream(int(builder.stream.handle))]
for _ in range(KERNELS):
    captured(a0, a1, a2, a3)
builder.end_building()
graph = builder.complete()
graph.upload(graph_stream)
graph.launch(graph_stream)
graph_stream.sync()
"""

# What a launch-config sensitive kernel reads of its launch does not matter to how it is launched: it is marked and no
# more, where extensions do so, and by the name of the function, because an extension sees every kernel.
_SENSITIVE = """\
if cuda.__name__.startswith("numba_cuda_mlir"):
    try:
        from numba_cuda_mlir.extending import WholeFunctionPlanner, register_planner, require_launch_config
    except ImportError:
        raise Unavailable("it has no launch-config sensitive kernels") from None

    @register_planner
    class Marks(WholeFunctionPlanner):
        def run(self):
            if self.state.func_ir.func_id.func_name == "sensitive_kernel":
                require_launch_config(self.state)
            return False
else:
    try:
        from numba.cuda import launchconfig
        from numba.cuda.core.rewrites import Rewrite, register_rewrite
    except ImportError:
        raise Unavailable("it has no launch-config sensitive kernels (numba-cuda has them since 0.30)") from None

    @register_rewrite("after-inference")
    class Marks(Rewrite):
        def match(self, func_ir, block, typemap, calltypes):
            if func_ir.func_id.func_name == "sensitive_kernel":
                launchconfig.ensure_current_launch_config().dispatcher.mark_launch_config_sensitive()
            return False

"""

_RECORDED = """\
try:
    from kernelscope import Recorder
except Exception as error:
    raise Unavailable(f"kernelscope cannot be imported there: {{type(error).__name__}}: {{error}}") from None

def begin_recording():
    global recorder
    recorder = Recorder("study", detail=DETAIL, gpu="none")
    recorder.start()

begin_recording()
{launch}
recorder.stop()
seen = recorder.recording
if len(seen.launches) != 1:
    messages = "; ".join(str(row["message"]) for row in seen.rows("health") if row["message"])
    raise Unavailable(f"kernelscope does not record launches there: {{messages or 'none was seen'}}")
"""


# The built-in cases, the selection of cases for a study, and cases of the user.

#: The numbers of arguments that are measured by default.
DEFAULT_ARGS = "0-4"

#: A kernel's parameters take at most 4 KiB on older devices, a device array of one dimension 56 bytes of them.
MOST_ARGS = 64


def built_in_cases() -> dict[str, Case]:
    """Return the built-in cases by name: the empty kernel with 0 to 4 arguments, and the other groups.

    `empty` makes more of the first, `graph` and `launches` more of the group ``graph``.
    """
    built_in = [*(empty(count) for count in range(5)), *argument_cases(), *launch_cases()]
    return {one.name: one for one in built_in}


def groups() -> tuple[str, ...]:
    """Return the names of the groups of built-in cases, in their order."""
    return tuple(dict.fromkeys(one.group for one in built_in_cases().values()))


def case(what: str | Callable[[], Any], setup: str = "", name: str | None = None, *, args: int | None = None,
         against: str | None = None, before: str = "", after: str = "", most_loops: int | None = None,
         needs: Iterable[str] = ()) -> Case:
    """Return a case made from source text or from a callable.

    Parameters
    ----------
    what : str or callable
        One launch: source text, which every target can run, or a callable without arguments, which only this process
        can: ``case(lambda: k[1, 1](a))``. A call of a callable costs some 0.05 µs that text does not cost.
    setup : str
        Source text that comes before, once in each process; it has ``cuda``, ``np`` and ``Unavailable``.
    name : str, optional
        By default the text of `what`, on one line and at most 60 characters of it.
    args : int, optional
        How many arguments the kernel has.
    against : str, optional
        The name of a case that this one is also compared with, in the same target.
    before, after : str
        Source text around each batch of loops, which is not timed.
    most_loops : int, optional
        The most loops that a batch may have.
    needs : iterable of str
        Modules that a target must have, besides the framework and NumPy.

    Raises
    ------
    StudyArgumentError
        If a text is none, or no Python, if there is nothing to time, if a callable has a setup, or if a number is out
        of range.
    """
    needs = tuple(check_paths("needs", needs))
    _check_fields(name, args, against, most_loops)
    if callable(what):
        for part, code in (("setup", setup), ("before", before), ("after", after)):
            if code:
                raise StudyArgumentError(
                    f"a case that is a callable has no {part}: do it before, in your own code, or give "
                    "the case as text")
        _refuse_unfinished(what)
        return Case(name or _name_of(what), args=args, against=against, most_loops=most_loops, needs=needs,
                    function=what)
    given = {"what": what, "setup": setup, "before": before, "after": after}
    texts = {"statement" if part == "what" else part: textwrap.dedent(check_text(part, code, "source text")).strip("\n")
             for part, code in given.items()}
    name = name or _shortened(texts["statement"])
    if not texts["statement"].strip():
        raise StudyArgumentError("a case needs something to time: its statement is empty")
    for part, code in texts.items():
        _check_case(code, part, name)
    return Case(name, texts["statement"], texts["setup"], args, against=against, before=texts["before"],
                after=texts["after"], most_loops=most_loops, needs=needs)


def select(args: str | int | Iterable[int] | None = None, names: str | Iterable[str | Case | Callable[[], Any]] = (), *,
           references: bool = True) -> list[Case]:
    """Return the selected cases, without duplicates, in the order of the tables.

    Parameters
    ----------
    args : str, int or iterable of int, optional
        Numbers of arguments of the empty kernel: ``"0-4"``, ``"0,2,4"``, ``"0-2,26"``, 3. Without `args` and `names`
        it is `DEFAULT_ARGS`.
    names : str or iterable of str, Case or callable
        Names of built-in cases, of groups (`groups`), or ``all``; cases of one's own. A string may name several,
        separated by commas.
    references : bool
        Whether what a case is also compared with comes too, before that case. What does not come is left out of
        `Case.against`.

    Raises
    ------
    StudyArgumentError
        If a number or name is unknown, with names that are near, or if two different cases have one name.
    """
    given = cast("object", names)
    if not (isinstance(given, Iterable | Case) or callable(given)):
        raise StudyArgumentError(f"cases={shown(names)} are no names and no cases; names are {', '.join(groups())}")
    wanted = [names] if isinstance(names, (str, Case)) or callable(names) else list(names)
    counts = parse_args(DEFAULT_ARGS if args is None and not wanted else args)
    known = built_in_cases()
    chosen: dict[str, Case] = {}
    found = [*(empty(count) for count in counts), *(one for what in wanted for one in _named(what, known))]
    own = {one.name: one for one in found if one.name not in known}
    if not found:
        raise StudyArgumentError(
            f"no case is named: there is nothing to measure. Groups are {', '.join(groups())}; the empty "
            "kernel's numbers of arguments are such as 0-4")
    for one in found:
        before = own.get(one.against or "") or _built_in(one.against, known)
        if one.against and before is None:
            raise StudyArgumentError(
                f"case {one.name!r} is to be compared with {one.against!r}, which is no case of the study"
                f"{did_you_mean(one.against, known, 3)}")
        if references and before is not None:
            _add(chosen, before)
        _add(chosen, one)
    return [one if one.against is None or one.against in chosen else replace(one, against=None)
            for one in chosen.values()]


def parse_args(args: str | int | Iterable[int] | None) -> list[int]:
    """Return the numbers of arguments that `args` selects, without duplicates, in its order.

    Raises
    ------
    StudyArgumentError
        If it is something else, or if a number is above `MOST_ARGS`.
    """
    if args is None:
        return []
    if isinstance(args, str):
        numbers = [number for part in args.split(",") if part.strip() for number in _range(part.strip(), args)]
    else:
        numbers: list[Any] = list(args) if isinstance(args, Iterable) else [args]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise StudyArgumentError(f"args={args!r}: {number!r} is no number of arguments")
        if not 0 <= int(number) <= MOST_ARGS:
            raise StudyArgumentError(f"a kernel with {number} arguments: a study makes kernels with 0 to {MOST_ARGS}")
    return list(dict.fromkeys(int(number) for number in numbers))


def _range(part: str, args: str) -> range:
    matched = re.fullmatch(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?", part)
    if matched is None:
        raise StudyArgumentError(f"numbers of arguments {args!r}: {part!r} is no number and no range such as 0-4")
    first, last = int(matched[1]), int(matched[2] or matched[1])
    if last < first:
        raise StudyArgumentError(f"numbers of arguments {args!r}: {part!r} goes backwards; write {last}-{first}")
    return range(first, min(last, MOST_ARGS + 1) + 1)


def _named(what: str | Case | Callable[[], Any], known: dict[str, Case]) -> list[Case]:
    if isinstance(what, Case):
        return [what]
    if not isinstance(what, str):
        if not callable(what):
            raise StudyArgumentError(f"{shown(what)} is no case: name one, or make one with studies.case")
        return [case(what)]
    found: list[Case] = []
    for name in (part.strip() for part in what.split(",") if part.strip()):
        members = [one for one in known.values() if name in ("all", one.group)]
        one = _built_in(name, known)
        if not members and one is None:
            raise StudyArgumentError(f"there is no case and no group {name!r}; groups are {', '.join(groups())}; a "
                                     f"case of your own is studies.case({name!r}, setup=...)"
                                     f"{did_you_mean(name, [*known, *groups()], 3)}")
        found += members or ([one] if one is not None else [])
    return found


def _built_in(name: str | None, known: dict[str, Case]) -> Case | None:
    """Return the built-in case of that name, also one that is made on request: ``7 args``, ``graph of 50 kernels``."""
    if name is None or name in known:
        return known.get(name or "")
    matched = re.fullmatch(r"(\d{1,3}) args? \+ (?:no recorder|recorder \((launch|phases)\))", name)
    if matched is not None:
        (count,) = parse_args(matched[1])
        return recorded(matched[2], count) if matched[2] else unrecorded(count)
    for pattern, make in ((r"(\d{1,3}) args?", empty), (r"graph of (\d{1,4}) kernels?", graph),
                          (r"(\d{1,4}) launch(?:es)?", launches)):
        matched = re.fullmatch(pattern, name)
        if matched is not None and int(matched[1]) >= (0 if make is empty else 1):
            return empty(*parse_args(matched[1])) if make is empty else make(int(matched[1]))
    return None


def _add(chosen: dict[str, Case], one: Case) -> None:
    if chosen.setdefault(one.name, one) != one:
        raise StudyArgumentError(f"two different cases are called {one.name!r}: give one of them another name")


def _check_fields(name: str | None, args: int | None, against: str | None, most_loops: int | None) -> None:
    """Raise `StudyArgumentError` for an invalid name, reference, number of arguments or number of loops."""
    for what, given in (("name", name), ("against", against)):
        if given is not None:
            check_text(what, given, "name of a case")
    if args is not None and not is_whole(args, 0):
        raise StudyArgumentError(f"args={shown(args)} is no number of arguments")
    if most_loops is not None and not is_whole(most_loops, 1):
        raise StudyArgumentError(f"most_loops={shown(most_loops)} is no number of loops from 1")


def _check_case(code: str, part: str, name: str) -> None:
    """Raise `StudyArgumentError` if `code` is no Python, or leaves the loop that it is put into."""
    try:
        compile(code, f"<{part} of {name}>", "exec")
    except (SyntaxError, ValueError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise StudyArgumentError(f"the {part} of case {name!r} is no Python{line}: {said}") from None


def _refuse_unfinished(function: Callable[[], Any]) -> None:
    """Raise `StudyArgumentError` for a function whose call runs nothing of it: it would be timed as a fast launch."""
    for kind, is_it in (("a coroutine", inspect.iscoroutinefunction), ("a generator", inspect.isgeneratorfunction),
                        ("an asynchronous generator", inspect.isasyncgenfunction)):
        if is_it(function) or is_it(getattr(function, "__call__", None)):  # noqa: B004 - what is called is looked at
            raise StudyArgumentError(f"a call of {_name_of(function)!r} makes {kind} and runs nothing of it: give a "
                                     "function that launches when it is called")


def _name_of(function: Callable[[], Any]) -> str:
    """Return the name of a callable, or the text of a lambda."""
    name: str = getattr(function, "__name__", "") or type(function).__name__
    code: object = getattr(function, "__code__", None)
    if name != "<lambda>" or not isinstance(code, CodeType):
        return name
    return _shortened(_body(code)) or f"lambda at line {code.co_firstlineno}"


def _body(code: CodeType) -> str:
    """Return the source of a lambda's body, as far as its instructions say where it is; empty if they do not."""
    spots = [(line, column, last, end) for line, last, column, end in code.co_positions()
             if line is not None and last is not None and column is not None and end is not None and end > column]
    # That name is of all texts that were evaluated; newer Pythons keep one of them, the script of `python -c`.
    lines = [] if code.co_filename == "<string>" else linecache.getlines(code.co_filename)
    if not spots or not lines:
        return ""
    (line, column), (last, end) = min(spot[:2] for spot in spots), max(spot[2:] for spot in spots)
    # Columns count bytes of UTF-8.
    text = [one.encode() for one in lines[line - 1:last]]
    if len(text) != last - line + 1:
        return ""
    text[-1] = text[-1][:end]
    text[0] = text[0][column:]
    return b"".join(text).decode("utf-8", "replace")


def _shortened(text: str) -> str:
    """Return `text` on one line, at most 60 characters of it."""
    line = " ".join(inspect.cleandoc(text).split())
    return line if len(line) <= 60 else line[:59] + "…"


__all__: Sequence[str] = (
    "DEFAULT_ARGS",
    "MOST_ARGS",
    "args_name",
    "built_in_cases",
    "case",
    "empty",
    "graph",
    "groups",
    "launches",
    "parse_args",
    "recorded",
    "select",
    "unrecorded",
)
