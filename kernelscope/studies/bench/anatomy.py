"""The parts of one launch, timed in the process of a target.

A reading of the clock costs as much as a small part of a launch, so that a launch with all boundaries stamped would
not be the launch that is asked about. Therefore a batch of launches has two stamps only: one where a part begins, one
where it ends. Each part has its batches, as has the launch without any stamp, in fresh order in every round. What two
stamps cost is measured in the same places: batches where both stand at the part's beginning. That is taken off. So
that the parts add up to the bare launch is no matter of arithmetic: it is a check, and what is left over is reported.
Arguments are the exception: where each one's turn begins is stamped in the same batch. A stamp in one turn of the loop
and none in the others costs more than itself, because the processor guesses the way through the loop wrong.

The stamps are statements that are put into copies of the framework's own functions (in their syntax trees), which then
lend their code to the functions for a batch. So no wrapper is on the path, and what stands between two boundaries is
what stands there without stamps. Where a boundary is not found in a version's source, the parts beside it are null,
with the reason, and the time between the boundaries that are found is ``other``.

Standard library only; Python 3.9 and later.
"""

from __future__ import annotations

import ast
import copy
import gc
import inspect
import random
import sys
import textwrap
import time
from itertools import repeat
from types import CodeType

# Names that the stamps use; in the globals of the functions that have some, for as long as a batch takes.
_CELL, _NOW, _SEE = "_kernelscope_cell", "_kernelscope_now", "_kernelscope_see"
_STAMP, _TURNS, _RESULT = "_kernelscope_stamp", "_kernelscope_turns", "_kernelscope_result"
# [0] is when the part began, 0 outside of one; [1] the sum of its times; [2] how often it was passed.
_BEGIN = "if not {cell}[0]: {cell}[0] = {now}()"
_END = "if {cell}[0]:\n {cell}[1] += {now}() - {cell}[0]\n {cell}[0] = 0\n {cell}[2] += 1"
# A function whose code was swapped is specialized anew by the interpreter, and its callers too.
_WARM_LAUNCHES = 150
# How often each run's batch is repeated, once it is warm: the median is little disturbed by what else runs.
_REPEATS = 3
_BARE_RUNS = 3

_ARGUMENTS = "arguments"

_CONFIGURATION = "configuration object"


class Path:
    """Where one framework's launch passes: the functions with boundaries in them.

    Parameters
    ----------
    module : str
        Where the classes are.
    entered : tuple of str
        The class and method that a configured launch enters: dispatch begins.
    launched : tuple of str
        The class and method that launches a specialization: dispatch ends. It holds the places below.
    prepares : str or None
        The function that it calls for each argument, in a loop.
    submits : tuple of str
        The functions that it calls to give the launch to the driver, whichever it has.
    unseen : dict of str to str
        Parts that this framework does not show, and why.
    """

    def __init__(self, module, entered, launched, prepares, submits, unseen):
        self.module = module
        self.entered = entered
        self.launched = launched
        self.prepares = prepares
        self.submits = submits
        self.unseen = unseen


PATHS = {
    "numba-cuda": Path("numba.cuda.dispatcher", ("CUDADispatcher", "call"), ("_Kernel", "launch"), "_prepare_args",
                       ("launch", "launch_kernel", "cuLaunchKernel", "cuLaunchKernelEx"), {}),
    "numba-cuda-mlir": Path(
        "numba_cuda_mlir.descriptor", ("_ArgMarshaller", "__call__"), ("_ArgMarshaller", "_launch"), None,
        ("launcher",),
        {"arguments": "numba-cuda-mlir prepares device arguments in native code: they are in submit",
         _CONFIGURATION: "numba-cuda-mlir makes the launch's configuration in native code: it is in submit"}),
}


class Anatomy:
    """One case's launch, taken apart.

    Parameters
    ----------
    statement : str
        What one launch is.
    namespace : dict
        Where it runs: the case's, after its setup and at least one launch.
    framework : str
        ``numba-cuda`` or ``numba-cuda-mlir``.
    before, after : str
        What runs directly before and after each batch, untimed.
    most_loops : int or None
        The most launches that a batch may have.
    synchronize : callable or None
        Waits for the device; called before and after each batch.
    clock : callable
        Returns nanoseconds.
    """

    def __init__(self, statement, namespace, framework, before="", after="", most_loops=None, synchronize=None,
                 clock=time.perf_counter_ns):
        self.namespace = namespace
        self.most_loops = most_loops
        self.missing = {}
        self.arguments = []
        self._clock = clock
        self._cell = [0, 0, 0]
        self._stamps = []
        self._synchronize = synchronize or (lambda: None)
        self._before = compile(before, "<before>", "exec") if before.strip() else None
        self._after = compile(after, "<after>", "exec") if after.strip() else None
        self._statement = ast.parse(textwrap.dedent(statement)).body
        self._path = PATHS[framework]
        self._lost = set()
        self._functions = self._find_functions()
        self._look()
        self.boundaries = self._find_boundaries()
        self.parts = self._make_parts()
        self._runs = self._make_runs()

    def round(self, loops, seed=None):
        """Time every part once, in fresh order.

        Parameters
        ----------
        loops : int
            How many launches a batch has.
        seed : int, optional
            For the order.

        Returns
        -------
        dict
            ``bare_ns``: a launch without stamps; ``parts_ns`` and ``stamps_ns``, by the parts' keys: its time with the
            stamps' and the stamps' alone, of one launch.
        """
        if self.most_loops is not None:
            loops = min(loops, self.most_loops)
        order = [("bare", None)] * _BARE_RUNS + [("empty", None)]
        order += [(kind, key) for kind, key in self._runs if kind not in ("bare", "empty") and key not in self._lost]
        random.Random(seed).shuffle(order)
        bare, empty, parts, stamps = [], 0.0, {}, {}
        was_enabled = gc.isenabled()
        gc.collect()
        gc.disable()
        try:
            for kind, key in order:
                if key in self._lost:
                    continue
                batches = self._batches(self._runs[kind, key], loops, _REPEATS)
                if kind == "bare":
                    bare += [host_ns / loops for host_ns, _, _ in batches]
                elif kind == "empty":
                    empty = _median([host_ns / loops for host_ns, _, _ in batches])
                elif key == _ARGUMENTS:
                    self._take_turns(batches, loops, kind == "stamps", parts if kind == "part" else stamps)
                elif any(passed != loops for _, (_, _, passed), _ in batches):
                    self._lose(key, "passed {} times in {} launches".format(batches[0][1][2], loops))
                else:
                    (parts if kind == "part" else stamps)[key] = _median([cell[1] / loops for _, cell, _ in batches])
        finally:
            if was_enabled:
                gc.enable()
        alive = [part["key"] for part in self.parts if part["reason"] is None]
        return {"loops": loops, "bare_ns": _median(bare) - empty, "loop_ns": empty,
                "parts_ns": {key: parts[key] for key in alive}, "stamps_ns": {key: stamps[key] for key in alive}}

    def loops_for(self, batch_ms):
        """Return how many launches take about that many milliseconds, once the launch's time has settled."""
        loops, last = 50, 0.0
        for _ in range(40):
            each = max(self._batches(self._runs["bare", None], loops)[0][0] / loops, 1.0)
            if last and abs(each - last) < 0.05 * last and loops > 50:
                break
            last = each
            loops = max(51, min(int(batch_ms * 1e6 / each), 20000))
        return min(loops, self.most_loops) if self.most_loops is not None else loops

    # The places.

    def _find_functions(self):
        """Return the functions that have boundaries, by name; `missing` says why one is not there."""
        module = sys.modules.get(self._path.module)
        found = {}
        for name, (owner, method) in (("entered", self._path.entered), ("launched", self._path.launched)):
            try:
                found[name] = _Source(inspect.unwrap(vars(getattr(module, owner))[method]))
            except (AttributeError, KeyError):
                self.missing[name] = "this version has no {}.{}".format(owner, method)
            except _Unseen as error:
                self.missing[name] = "{}.{}: {}".format(owner, method, error)
        return found

    def _look(self):
        """Launch once, and see with which arguments."""
        seen = []
        source = self._functions.get("launched")
        if source is not None:
            tree = source.tree()
            tree.body[source.first:source.first] = _statements("{}(locals())".format(_SEE))
            code = source.compile(tree)
            self._batches((self._loop(), {"launched": code}), 1, see=lambda local: seen.append(_described(local)))
        if seen:
            self.arguments = seen[0]

    def _find_boundaries(self):
        """Return the names of the boundaries that this version has, in the order in which a launch passes them."""
        names = ["statement"]
        if "entered" in self._functions:
            names.append("entered")
        source = self._functions.get("launched")
        if source is not None:
            names.append("launched")
            tree = source.tree()
            if self._path.prepares is not None:
                if len(_loops_over(tree, self._path.prepares)) == 1:
                    names += ["preparing", "prepared"] if self.arguments else ["prepared"]
                else:
                    self.missing["prepared"] = "{} has not one loop that calls {}".format(
                        source.name, self._path.prepares)
            if _calls_of(tree, self._path.submits):
                names += ["submit", "submitted"]
            else:
                self.missing["submit"] = "{} calls none of {}".format(source.name, ", ".join(self._path.submits))
        return [*names, "end"]

    def _make_parts(self):
        """Return the parts, in order, and those that cannot be seen, each with the reason."""
        known = {("statement", "entered"): "configure", ("entered", "launched"): "dispatch",
                 ("launched", "preparing"): "set-up", ("launched", "prepared"): "set-up",
                 ("submit", "submitted"): "submit", ("submitted", "end"): "finish"}
        unseen = self._unseen()
        if self._path.prepares is None:
            known["launched", "submit"] = "set-up"
        elif _CONFIGURATION not in unseen:
            known["prepared", "submit"] = _CONFIGURATION
        parts, others = [], 0
        for begin, end in zip(self.boundaries, self.boundaries[1:]):
            if begin == "preparing":
                parts += [_part("argument {}".format(index), begin, end, note)
                          for index, note in enumerate(self.arguments)]
            elif (begin, end) in known:
                parts.append(_part(known[begin, end], begin, end))
            else:
                others += 1
                parts.append(_part("other {}".format(others) if others > 1 else "other", begin, end,
                                   "from {} to {}".format(begin, end)))
        had = {part["key"] for part in parts} | ({_ARGUMENTS} if self.arguments == [] else set())
        had |= {_ARGUMENTS} if "preparing" in self.boundaries else set()
        return parts + [_part(key, reason=reason) for key, reason in unseen.items() if key not in had]

    def _unseen(self):
        """Return the parts that this version does not show, each with the reason."""
        unseen = dict(self._path.unseen)
        for name, parts in (("entered", ("configure", "dispatch")),
                            ("launched", ("dispatch", "set-up", "arguments", _CONFIGURATION, "submit", "finish")),
                            ("prepared", ("set-up", "arguments", _CONFIGURATION)),
                            ("submit", (_CONFIGURATION, "submit", "finish"))):
            for part in parts:
                if name in self.missing:
                    unseen.setdefault(part, self.missing[name])
        source = self._functions.get("launched")
        if self._path.prepares is not None and source is not None and "LaunchConfig" not in source.names:
            unseen.setdefault(_CONFIGURATION, "{} makes none".format(source.name))
        return unseen

    def _lose(self, key, reason):
        """Say why a part cannot be timed in this case: it is passed more than once a launch, or not in each."""
        self._lost.add(key)
        for part in self.parts:
            if part["key"] == key or (key == _ARGUMENTS and part["begin"] == "preparing"):
                part["reason"] = reason

    def _take_turns(self, batches, loops, together, times):
        """Enter the times of the arguments, of one launch: a stamp before the loop, in each turn, and behind it."""
        turns = len(self.arguments)
        each = (turns + 2) * (2 if together else 1)
        if any(len(stamps) != loops * each for _, _, stamps in batches):
            self._lose(_ARGUMENTS, "{} arguments were not taken one after the other".format(turns))
            return
        sums = [[sum(stamps[at + 1::each]) - sum(stamps[at::each]) for at in range(each - 1)]
                for _, _, stamps in batches]
        between = [_median([batch[at] / loops for batch in sums]) for at in range(each - 1)]
        if together:
            between = between[::2]
        for index in range(turns):
            # What the loop does before the first turn is the first argument's.
            times["argument {}".format(index)] = between[index + 1] + (between[0] if index == 0 else 0.0)

    # The batches.

    def _make_runs(self):
        """Return what runs in each kind of batch: the loop's function, and the code that the functions borrow."""
        runs = {("bare", None): (self._loop(), {}), ("empty", None): (self._loop(statement=_statements("pass")), {})}
        for part in self.parts:
            begin, end = part["begin"], part["end"]
            for kind, together in (("part", False), ("stamps", True)):
                if part["reason"] is None and begin != "preparing":
                    runs[kind, part["key"]] = self._stamped(begin, end, together)
                elif part["reason"] is None:
                    runs[kind, _ARGUMENTS] = self._stamped_turns(together)
        return runs

    def _stamped(self, begin, end, together):
        """Return a run with a stamp at `begin` and one at `end`, or, `together`, both at `begin`."""
        first, last = _stamp(_BEGIN), _stamp(_END)
        marks = [(begin, first + last)] if together else [(end, last), (begin, first)]
        around = dict(marks)
        loop = self._loop(around.get("statement", ()), around.get("end", ()))
        codes = {}
        for name, source in self._functions.items():
            tree, original = source.tree(), source.tree()
            for place, stamps in marks:
                if place not in ("statement", "end") and (place == "entered") == (name == "entered"):
                    self._insert(tree, source, place, stamps)
            if ast.dump(tree) != ast.dump(original):
                codes[name] = source.compile(tree)
        return loop, codes

    def _insert(self, tree, source, place, marks):
        """Put stamps at a boundary of a function."""
        if place in ("entered", "launched"):
            tree.body[source.first:source.first] = marks
        elif place in ("preparing", "prepared"):
            (body, at), = _loops_over(tree, self._path.prepares)
            if place == "prepared":
                body[at + 1:at + 1] = marks
            else:
                _split(body, at, marks)
        else:
            for body, at in reversed(_calls_of(tree, self._path.submits)):
                stamps = copy.deepcopy(marks)
                if place == "submit":
                    body[at:at] = stamps
                elif isinstance(body[at], ast.Return):
                    kept = ast.Assign(targets=[ast.Name(_RESULT, ast.Store())], value=body[at].value)
                    body[at:at + 1] = [kept, *stamps, *_statements("return " + _RESULT)]
                else:
                    body[at + 1:at + 1] = stamps

    def _stamped_turns(self, together):
        """Return a run with a stamp before the loop over arguments, in each turn of it, and behind it."""
        stamp = "{}({}())\n".format(_STAMP, _NOW) * (2 if together else 1)
        source = self._functions["launched"]
        tree = source.tree()
        (body, at), = _loops_over(tree, self._path.prepares)
        body[at].body[0:0] = _statements(stamp)
        body[at + 1:at + 1] = _statements(stamp)
        _split(body, at, _statements(stamp))
        return self._loop(), {"launched": source.compile(tree)}

    def _loop(self, before=(), behind=(), statement=None):
        """Return the function that launches in a loop, with stamps before and behind the statement."""
        module = ast.parse("def _run(_loops):\n _begin = {now}()\n for _ in _loops:\n  pass\n return {now}() - _begin"
                           .format(now=_NOW))
        body = self._statement if statement is None else statement
        module.body[0].body[1].body = [*copy.deepcopy(list(before)), *copy.deepcopy(body),
                                       *copy.deepcopy(list(behind))]
        scope = self.namespace
        made = {}
        exec(compile(ast.fix_missing_locations(module), "<anatomy>", "exec"), scope, made)
        return made["_run"]

    def _batches(self, run, loops, repeats=1, see=None):
        """Run batches; return of each its time on the host, the cell of the stamps, and the list of stamps."""
        function, codes = run
        scopes = [self.namespace, *(self._functions[name].function.__globals__ for name in codes)]
        added = {_CELL: self._cell, _NOW: self._clock, _SEE: see, _STAMP: self._stamps.append}
        own = [(self._functions[name].function, self._functions[name].function.__code__) for name in codes]
        done = []
        try:
            for scope in scopes:
                scope.update(added)
            for name, code in codes.items():
                self._functions[name].function.__code__ = code
            if see is None:
                self._run(function, min(_WARM_LAUNCHES, self.most_loops or _WARM_LAUNCHES))
            for _ in range(repeats):
                self._cell[:] = [0, 0, 0]
                self._stamps.clear()
                done.append((self._run(function, loops), tuple(self._cell), tuple(self._stamps)))
            return done
        finally:
            for changed, code in own:
                changed.__code__ = code
            for scope in scopes:
                for name in added:
                    scope.pop(name, None)

    def _run(self, function, loops):
        self._synchronize()
        if self._before is not None:
            exec(self._before, self.namespace)
        try:
            return function(repeat(None, loops))
        finally:
            if self._after is not None:
                exec(self._after, self.namespace)
            self._synchronize()


class _Unseen(Exception):
    """A function cannot be looked into."""


class _Source:
    """A function of the framework, and its syntax tree to put stamps into."""

    def __init__(self, function):
        code = getattr(function, "__code__", None)
        if not isinstance(code, CodeType):
            raise _Unseen("it is no Python function")
        if code.co_freevars:
            raise _Unseen("it is a closure")
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        except (OSError, TypeError, SyntaxError) as error:
            raise _Unseen("its source cannot be read") from error
        definition = tree.body[0]
        if not isinstance(definition, ast.FunctionDef) or definition.name != code.co_name:
            raise _Unseen("its source is no plain function")
        definition.decorator_list = []
        ast.increment_lineno(definition, code.co_firstlineno - 1)
        self.function = function
        self.name = getattr(function, "__qualname__", code.co_name)
        self.names = code.co_names
        self.first = 1 if ast.get_docstring(definition, clean=False) is not None else 0
        self._tree = definition
        if self.compile(self.tree()).co_freevars != code.co_freevars:
            raise _Unseen("it is a closure")

    def tree(self):
        return copy.deepcopy(self._tree)

    def compile(self, tree):
        """Return the code of the function with another tree."""
        code = self.function.__code__
        features = code.co_flags & sum(_FEATURES)
        module = compile(ast.fix_missing_locations(ast.Module(body=[tree], type_ignores=[])), code.co_filename, "exec",
                         flags=features, dont_inherit=True)
        return next(each for each in module.co_consts if isinstance(each, CodeType) and each.co_name == code.co_name)


def _features():
    import __future__

    return {getattr(__future__, name).compiler_flag for name in ("annotations",)}


_FEATURES = _features()


def _statements(text):
    return ast.parse(text).body


def _stamp(text):
    return _statements(text.format(cell=_CELL, now=_NOW))


def _split(body, at, marks):
    """Put stamps between what a loop goes over being made and its first turn."""
    loop = body[at]
    made = ast.Assign(targets=[ast.Name(_TURNS, ast.Store())],
                      value=ast.Call(func=ast.Name("iter", ast.Load()), args=[loop.iter], keywords=[]))
    loop.iter = ast.Name(_TURNS, ast.Load())
    body[at:at] = [made, *marks]


def _part(key, begin="", end="", note="", reason=None):
    return {"key": key, "begin": begin, "end": end, "note": note, "reason": reason}


def _median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _bodies(tree):
    """Yield the lists of statements of a function, without those of functions in it."""
    for field in ("body", "orelse", "finalbody"):
        body = getattr(tree, field, None)
        if isinstance(body, list):
            yield body
            for statement in body:
                if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    yield from _bodies(statement)
    for handler in getattr(tree, "handlers", ()):
        yield from _bodies(handler)


def _loops_over(tree, name):
    """Return where the loops are that call a function: pairs of a list of statements and the place in it."""
    return [(body, at) for body in _bodies(tree) for at, statement in enumerate(body)
            if isinstance(statement, ast.For) and _has_call(statement, (name,))]


def _calls_of(tree, names):
    """Return where the statements are that call one of some functions, as in `_loops_over`."""
    return [(body, at) for body in _bodies(tree) for at, statement in enumerate(body)
            if isinstance(statement, (ast.Expr, ast.Assign, ast.Return)) and _has_call(statement, names)]


def _has_call(tree, names):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", None)
            if name in names:
                return True
    return False


def _described(local):
    """Return what the arguments of a launch are, as text, from the local names of the function that launches."""
    values = local.get("args", local.get("launch_args", ()))
    kernel = local.get("self")
    types = getattr(kernel, "argument_types", None) or local.get("argtypes") or ()
    try:
        names = list(inspect.signature(kernel.py_func).parameters)
    except (AttributeError, TypeError, ValueError):
        names = []
    described = []
    for index, value in enumerate(values):
        kind = str(types[index]) if index < len(types) else type(value).__name__
        name = names[index] if index < len(names) else ""
        described.append("{}: {}".format(name, kind) if name else kind)
    return described
