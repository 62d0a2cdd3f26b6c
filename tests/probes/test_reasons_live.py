"""Reasons of compiles that numba-cuda really made: each case launches twice, or is as users meet it."""

from __future__ import annotations

import collections
import contextlib
import enum
import functools
import gc
import json
import re
import threading
import weakref

import numpy as np
import pytest
from numba import cuda, guvectorize, vectorize
from numba.cuda import launchconfig, types
from numba.cuda.core import config
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.dispatcher import CUDADispatcher
from numba.cuda.extending import overload

import kernelscope
from kernelscope.analysis import torch_reasons, triton
from kernelscope.probes.functions import definitions
from kernelscope.schema import COMPILE_REASONS

# Host arrays are what is told apart here.
pytestmark = pytest.mark.filterwarnings("ignore:.*Host array used in CUDA kernel")

Point = collections.namedtuple("Point", "a b")
Place = collections.namedtuple("Place", "a b")


class Color(enum.IntEnum):
    RED = 1


class Hue(enum.Enum):
    RED = 1


class Foreign:
    """Somebody else's device array, which may say that it is read-only."""

    def __init__(self, array, readonly):
        self.array, self.readonly = array, readonly

    @property
    def __cuda_array_interface__(self):
        interface = dict(self.array.__cuda_array_interface__)
        interface["data"] = interface["data"][0], self.readonly
        return interface


PACKED = np.dtype([("a", "i1"), ("b", "f4")])


def host(dtype=np.float32, shape=(8,)):
    return np.zeros(shape, dtype)


def device(dtype=np.float32, shape=(8,), order="C"):
    return cuda.to_device(np.zeros(shape, dtype, order=order))


def readonly(array):
    array.flags.writeable = False
    return array


def launches_of(*launches):
    """The compiles that launches of one new kernel make."""
    space = {"cuda": cuda}
    exec(f"@cuda.jit\ndef kernel({', '.join('xyzw'[:len(launches[0])])}):\n    pass", space)
    definitions.clear()
    with kernelscope.record() as r, contextlib.suppress(NotImplementedError):  # None is compiled for, and then refused
        for values in launches:
            space["kernel"][1, 32](*values)
    assert r.recording.health.errors.isna().all(), r.recording.health.to_string()
    return r.recording.rows("compilations")


C, F = np.zeros((4, 4), np.float32), np.zeros((4, 4), np.float32, order="F")

#: What two launches are given, the reason's code, and words of it.
CASES = {
    "dtype": (host, lambda: host(np.float64), "new_dtype", "dtype (float32 to float64)"),
    "dtype of a device array": (device, lambda: device(np.int32), "new_dtype", "dtype (float32 to int32)"),
    "bool array": (lambda: host(np.bool_), lambda: host(np.int8), "new_dtype", "dtype (bool to int8)"),
    "time": (lambda: host("M8[D]"), lambda: host("M8[s]"), "new_dtype", "datetime64[D] to datetime64[s]"),
    "text": (lambda: host("U3"), lambda: host("U4"), "new_dtype", "[unichr x 3] to [unichr x 4]"),
    "record field": (lambda: host([("a", "i4"), ("b", "f4")]), lambda: host([("a", "i4"), ("b", "f8")]), "new_dtype",
                     "field `b` float32 to float64"),
    "alignment": (lambda: host(PACKED), lambda: host(np.dtype(PACKED.descr, align=True)), "new_alignment",
                  "fields are aligned"),
    "dimensions": (host, lambda: host(shape=(4, 4)), "new_dimensions", "dimensions (1 to 2)"),
    "fewer dimensions": (lambda: host(shape=(2, 2, 2)), host, "new_dimensions", "dimensions (3 to 1)"),
    "no dimensions": (host, lambda: host(shape=()), "new_dimensions", "dimensions (1 to 0)"),
    "dimensions of a device array": (device, lambda: device(shape=(4, 4)), "new_dimensions", "dimensions (1 to 2)"),
    "slice": (device, lambda: device()[::2], "new_layout", "C to A: not contiguous"),
    "contiguous again": (lambda: device()[::2], device, "new_layout", "A to C"),
    "column-major": (lambda: C, lambda: F, "new_layout", "C to F: column-major"),
    "row-major": (lambda: device(shape=(4, 4), order="F"), lambda: device(shape=(4, 4)), "new_layout",
                  "F to C: row-major"),
    "read-only": (host, lambda: readonly(host()), "new_access", "read-only, not writable"),
    "writable again": (lambda: readonly(host()), host, "new_access", "writable, not read-only"),
    "read-only by interface": (device, lambda: Foreign(device(), True), "new_access", "read-only, not writable"),
    "broadcast": (lambda: C, lambda: np.broadcast_to(host(), (8, 8)), "new_layout", "read-only"),
    "np.int32": (lambda: 1, lambda: np.int32(1), "new_scalar", "np.int32; the nearest known specialization has int64, "
                 "as a Python int is"),
    "float": (lambda: 1, lambda: 1.5, "new_scalar", "float64, as a Python float is"),
    "np.float32": (lambda: 1.5, lambda: np.float32(1), "new_scalar", "np.float32"),
    "complex": (lambda: 1.5, lambda: 1j, "new_scalar", "complex128, as a Python complex is"),
    "bool": (lambda: 1, lambda: True, "new_scalar", "is bool; the nearest known specialization has int64"),
    "date": (lambda: np.datetime64(1, "D"), lambda: np.datetime64(1, "s"), "new_scalar", "datetime64[s]"),
    "empty tuple": (lambda: (), lambda: (1,), "tuple_arity", "elements (0 to 1)"),
    "tuple element": (lambda: (1, 2), lambda: (1, 2.0), "new_scalar", "argument `x[1]` is float64"),
    "array in a tuple": (lambda: (host(), 1), lambda: (host(np.int8), 1), "new_dtype", "argument `x[0]` is array(int8"),
    "named tuple": (lambda: Point(1, 2), lambda: Place(1, 2), "new_type", "named tuple Place(int64 x 2)"),
    "number for an array": (host, lambda: 1, "new_type", "int64, as a Python int is"),
    "enum": (lambda: 1, lambda: Color.RED, "new_type", "a member of an enum, IntEnum<int64>(Color)"),
    "None": (lambda: 1, lambda: None, "optional", "argument `x` is None"),
}


#: Whose fix is not an expression for the whole argument.
SAID = {"record field", "alignment", "tuple element", "array in a tuple", "named tuple", "number for an array", "enum",
        "None"}


@pytest.mark.parametrize("case", CASES)
def test_a_second_launch_of_another_type(case):
    first, second, code, words = CASES[case]
    values = [(first(),), (second(),)]
    before, row = launches_of(*values)
    assert (row["reason_code"], row["argument"]) == (code, "x")
    assert words in row["reason"]
    assert row["nearest_signature"] == before["signature"]
    assert "argument `x" in row["fix"]
    if case not in SAID and " as " in row["fix"]:
        assert len(launches_of(*(passed_as(row["fix"], each) for each in values))) == 1, row["fix"]


@pytest.mark.parametrize(("first", "second", "code"), [
    ((C, 1, host(), host()), (F.astype(np.float64), 1.5, host(np.float64), host(np.float64)), "new_dtype"),
    ((host(),), (readonly(host(np.float64, (4, 4))),), "new_dimensions"),
    ((device(), 1, device()), (device(np.float64)[::2], 1.5, device(np.float64)), "new_dtype"),
])
def test_several_differences_are_passed_as_the_fix_says(first, second, code):
    row = launches_of(first, second)[1]
    assert row["reason_code"] == code
    assert len(launches_of(*(passed_as(row["fix"], each) for each in (first, second)))) == 1, row["fix"]


F4, F8 = host, lambda: host(np.float64)
PLANE = np.zeros((4, 4))
DEVICE = device(np.int32, (4, 4))


@pytest.mark.parametrize("launches", [
    [(F4(), F4()), (F8(), F8()), (F4(), F8())],
    [(1, np.int32(1)), (np.int8(1), True), (np.uint8(1), 1)],
    [(np.uint8(1),), (np.int8(1),), (True,)],
    [(PLANE,), (np.asfortranarray(PLANE),), (readonly(np.zeros((2, 4, 4), np.int8)),)],
    [(DEVICE[:, 1:],), (device(np.int8, (4, 4), "F"),), (DEVICE,)],
    [(readonly(np.asfortranarray(PLANE)),), (np.asfortranarray(PLANE),), (np.asfortranarray(PLANE).astype("f4"),)],
    [(host("U2"),), (host("U5"),), (host("U3"),)],
])
def test_the_fixes_of_all_compiles_leave_one(launches):
    """Each launch given what the fix of its own compile says, the first one what one of the others does."""
    fixes = [row["fix"] for row in launches_of(*launches)[1:]]
    after = [passed_as(fix, values) for fix, values in zip(fixes, launches[1:], strict=True)]
    assert min(len(launches_of(passed_as(fix, launches[0]), *after)) for fix in fixes) == 1, fixes


def passed_as(fix, values):
    """What the fix has the launch given instead: its expressions, of the argument or of the host array behind it."""
    result = list(values)
    for names, expression in re.findall(r"arguments? ((?:`\w`(?:, | and )?)+) as (.+?)(?=, argument| in every)", fix):
        for at in map("xyzw".index, re.findall(r"\w(?=`)", names)):
            value = values[at]
            behind = value.copy_to_host() if hasattr(value, "copy_to_host") else value
            result[at] = eval(expression, {"np": np, "cuda": cuda, "array": value, "host": behind, "value": value})
    return result


@pytest.mark.parametrize(("first", "second"), [
    (host, device), (device, host), (host, lambda: cuda.pinned_array(8, np.float32)),
    (device, lambda: Foreign(device(), False)), (host, lambda: host(shape=(1,))),
    (lambda: 1, lambda: np.int64(1)), (lambda: 1.5, lambda: np.float64(1)), (lambda: True, lambda: np.bool_(1)),
    (lambda: host([("a", "i4"), ("b", "f4")]), lambda: host(np.dtype([("a", "i4"), ("b", "f4")], align=True))),
])
def test_what_needs_no_second_compile(first, second):
    assert len(launches_of((first(),), (second(),))) == 1


def test_only_declared_types_are_unaligned_literal_or_optional():
    @cuda.jit
    def kernel(x, n):
        pass

    aligned = types.Array(types.float32, 1, "C")
    with kernelscope.record() as r:
        kernel[1, 32](host(), 1)
        for x, n in ((types.Array(types.float32, 1, "C", aligned=False), types.int64), (aligned, types.literal(1)),
                     (types.Optional(aligned), types.int64)):
            kernel.compile((x, n))
    rows = r.recording.rows("compilations")[1:]
    assert [(row["reason_code"], row["argument"]) for row in rows] == [
        ("new_alignment", "x"), ("literal", "n"), ("optional", "x")]
    assert all("kernel.compile() asked for it" in row["reason"] for row in rows)


def test_several_arguments_differ_and_the_worst_is_first():
    @cuda.jit
    def kernel(x, n, y, *rest):
        pass

    with kernelscope.record() as r:
        kernel[1, 32](host(), 1, host(), 1)
        kernel[1, 32](host(np.float64), np.int32(1), host(shape=(2, 2)), 1.5)
    row = r.recording.rows("compilations")[1]
    assert (row["reason_code"], row["argument"]) == ("new_dimensions", "y")
    assert ("; `x` (float32 to float64), `n` (int64 to int32), `rest[0]` (int64 to float64) differ too"
            in row["reason"])
    assert r.recording.dispatchers.arguments.tolist() == ["x, n, y, *rest"]


def test_forall_and_specialize_are_told_apart():
    @cuda.jit
    def kernel(x):
        pass

    with kernelscope.record() as r:
        kernel[1, 32](host())
        kernel.forall(8)(host())
        kernel.forall(8)(host(np.float64))
        kernel.specialize(host(np.int8))[1, 32](host(np.int8))
        kernel[1, 32](host(np.int8))
    rows = r.recording.rows("compilations")
    assert [row["reason_code"] for row in rows] == ["first_use", "forall", "forall", "specialize", "new_dtype"]
    assert "had compiled the same types already" in rows[1]["reason"]
    assert "argument `x` is array(float64, 1d, C); the nearest one of its kind has array(float32" in rows[2]["reason"]
    assert "specialize() made a dispatcher of its own" in rows[3]["reason"]


def test_a_launch_config_sensitive_kernel_says_what_differs(kernels):
    sensitive = kernels.sensitive
    with kernelscope.record() as r:
        for configuration in ((1, 32), (1, 64), (2, 64), (2, 64, 0, 1024)):
            sensitive[configuration](host())
        sensitive[2, 64](host(np.float64))
    rows = r.recording.rows("compilations")
    assert [row["reason_code"] for row in rows] == ["first_use", *["launch_config"] * 3, "new_dtype"]
    for row, words in zip(rows[1:4], ("blockdim 64 instead of 32, against the nearest known [1, 32]",
                                      "griddim 2 instead of 1, against the nearest known [1, 64]",
                                      "sharedmem 1,024 B instead of 0 B, against the nearest known [2, 64]"),
                          strict=True):
        assert words in row["reason"]


def define(factor=2, **options):
    @cuda.jit(**options)
    def scaled(x):
        x[0] = x[0] * factor

    return scaled


def test_other_code_is_another_hash():
    sources = ["x[0] = 1", "x[0] = 2", "x[0] = 1.0", "x[0] = True", "x[1] = 1", "y = 1", "x[0] += 1"]
    with kernelscope.record() as r:
        for source in [*sources, sources[0]]:
            space = {}
            exec(f"\n\ndef kernel(x):\n    {source}", space)
            kernel = cuda.jit(space["kernel"])
            kernel[1, 32](host())
    codes = r.recording.dispatchers.code_sha256
    assert codes.nunique() == len(sources)
    assert codes.iloc[-1] == codes.iloc[0]
    assert "with other code" in r.recording.compilations.reason[1]


def test_a_launch_config_sensitive_kernel_whose_later_compiles_do_not_say_so():
    # What the overload compiled to is kept, so that numba-cuda runs it for the first launch configuration only.
    def width(x):
        raise NotImplementedError

    @overload(width, target="cuda")
    def width_on_cuda(x):
        launchconfig.ensure_current_launch_config().dispatcher.mark_launch_config_sensitive()
        return lambda x: 1

    @cuda.jit
    def wide(x):
        x[0] = width(x)

    with kernelscope.record() as r:
        for blockdim in (32, 64):
            wide[1, blockdim](cuda.device_array(4, np.float32))
    rows = r.recording.rows("compilations")
    assert [row["reason_code"] for row in rows] == ["first_use", "launch_config"]
    assert "blockdim 64 instead of 32" in rows[1]["reason"]
    bound = [row["launch_config"] for row in r.recording.rows("specializations")]
    assert '"blockdim": [64, 1, 1]' in bound[1], bound


# Every fix is done as it is printed, and the compile that it is for is gone.


def compiles(run):
    """The compilations of what `run` does."""
    with kernelscope.record() as r, contextlib.suppress(NotImplementedError):  # what cannot be launched is compiled for
        run()
    assert r.recording.health.errors.isna().all(), r.recording.health.to_string()
    return r.recording.rows("compilations")


def launch(kernel, *arguments):
    for each in arguments:
        kernel[1, 32](each)


def untyped():
    @cuda.jit
    def kernel(x):
        pass

    return kernel


def defined_with(function):
    @cuda.jit
    def applied(x):
        x[0] = function(x[0])

    return applied


def device_function(number):
    return cuda.jit(device=True)({1: lambda x: x + 1, 2: lambda x: x * 2}[number])


def reduction():
    def add(a, b):
        return a + b

    return cuda.reduce(add)


def ufunc():
    @vectorize(["float32(float32, float32)", "float64(float64, float64)"], target="cuda")
    def add(a, b):
        return a + b

    return add


def gufunc(*types):
    @guvectorize([f"void({each}[:], {each}[:])" for each in types], "(n)->(n)", target="cuda")
    def copy(x, out):
        for i in range(x.shape[0]):
            out[i] = x[i]

    return copy


def sensitive_kernel():
    @cuda.jit
    def sensitive(x):
        x[0] = 1

    return sensitive


class Imports:
    """Where a case is done: a module ``kernels`` that is imported anew, its disk cache, and new processes."""

    def __init__(self, folder, run_python):
        self.file, self.run_python = folder / "kernels.py", run_python

    def module(self, options="", text=""):
        """Import it: the file stays the same with other arguments of @cuda.jit, but for what `text` adds to it."""
        arguments, given = eval(f"(lambda *signatures, **options: (signatures, options))({options})")
        text = f"from numba import cuda\n\n@cuda.jit(*ARGUMENTS, **OPTIONS)\ndef kernel(x):\n    x[0] = 1\n{text}"
        if not self.file.exists() or self.file.read_text() != text:
            self.file.write_text(text)
        space = {"__name__": "kernels", "__file__": str(self.file), "ARGUMENTS": arguments, "OPTIONS": given}
        exec(compile(text, str(self.file), "exec"), space)
        return space["kernel"]

    def launch(self, *options):
        """Import the module and launch, each time as a new process would."""
        for each in options:
            definitions.clear()
            launch(self.module(each), host())


@pytest.fixture
def place(tmp_path, monkeypatch, run_python):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    return Imports(tmp_path, run_python)


#: By name: a function of an `Imports`, the reason's code, and words of the fix.
FIXES = {}


def fix(code, words):
    """Keep a case, which returns what compiles for the reason, and the same with the fix done, if there is one."""
    def keep(case):
        FIXES[case.__name__] = (case, code, words)
        return case

    return keep


@fix("first_use", '@cuda.jit(["void(float32[::1])"]) compiles it at the definition')
def a_first_use_is_declared(place):
    def of(signature):
        return cuda.jit([signature])(untyped().py_func)

    kernel = of("void(float32[::1])")
    return lambda: launch(untyped(), host()), lambda: launch(kernel, host())


@fix("first_use", "cache=True keeps it on disk")
def a_first_use_is_kept_on_disk(place):
    place.launch("cache=True")
    return lambda: place.launch(""), lambda: place.launch("cache=True")


@fix("literal", "declare argument `x` by its plain type, such as int64")
def a_declared_literal(place):
    def compiles_for(kernel, kind):
        launch(kernel, 1)
        kernel.compile((kind,))

    return (lambda: compiles_for(untyped(), types.literal(1)),
            lambda: compiles_for(untyped(), types.int64))


@fix("new_alignment", "align=True in np.dtype for all, or for none")
def records_of_one_dtype(place):
    packed, aligned = np.zeros(4, PACKED), np.zeros(4, np.dtype(PACKED.descr, align=True))
    return (lambda: launch(untyped(), packed, aligned),
            lambda: launch(untyped(), packed, aligned.astype(PACKED)))


@fix("new_layout", "declare it in @cuda.jit's signatures as float32[:, :], which takes every layout")
def every_layout_is_declared(place):
    kernel = cuda.jit(["void(float32[:, :])"])(untyped().py_func)
    launch(kernel, device(shape=(4, 4)))
    return (lambda: launch(untyped(), device(shape=(4, 4)), device(shape=(4, 4), order="F")),
            lambda: launch(kernel, device(shape=(4, 4)), device(shape=(4, 4), order="F")))


@fix("argument_count", "pass as many arguments in every launch; defaults in the definition are not filled in")
def as_many_arguments(place):
    @cuda.jit
    def kernel(x, n=1):
        pass

    def launch_without():
        with pytest.raises(TypeError, match="mismatch"):
            kernel[1, 32](host())

    return launch_without, lambda: kernel[1, 32](host(), 1)


@fix("launch_config", "fewer distinct configurations, such as the nearest known one")
def one_configuration(place):
    def launch_in(kernel, *blocks):
        for each in blocks:
            kernel[1, each](host())

    return (lambda: launch_in(sensitive_kernel(), 32, 64),
            lambda: launch_in(sensitive_kernel(), 32, 32))


@fix("forall", "launch kernel[griddim, blockdim](...) instead of forall: it has these types already")
def no_forall(place):
    def launch_twice(kernel, last):
        launch(kernel, host())
        last(kernel)

    return (lambda: launch_twice(untyped(), lambda each: each.forall(8)(host())),
            lambda: launch_twice(untyped(), lambda each: each[1, 32](host())))


@fix("specialize", "launch kernel[griddim, blockdim](...) instead of what specialize() returns")
def no_specialize(place):
    def launch_twice(kernel, last):
        launch(kernel, host())
        last(kernel)

    return (lambda: launch_twice(untyped(), lambda each: each.specialize(host())[1, 32](host())),
            lambda: launch_twice(untyped(), lambda each: each[1, 32](host())))


@fix("eager", "cache=True in @cuda.jit keeps it on disk for the next session")
def eager_from_disk(place):
    signature = '["void(float32[::1])"]'
    place.launch(f"{signature}, cache=True")
    return lambda: place.launch(signature), lambda: place.launch(f"{signature}, cache=True")


@fix("redefined", "keep the definition out of the cell, loop or function that runs again")
def a_definition_outside_of_the_loop(place):
    return (lambda: [launch(define(), host()) for _ in range(2)],
            lambda: [launch(kernel, host()) for kernel in [define()] for _ in range(2)])


@fix("redefined", "or cache=True in @cuda.jit, with which a definition that runs again loads it")
def a_definition_that_is_loaded(place):
    return (lambda: [launch(place.module(), host()) for _ in range(2)],
            lambda: [launch(place.module("cache=True"), host()) for _ in range(2)])


@fix("redefined", "pass `factor` as an argument instead of capturing it, and define the kernel once")
def a_captured_value_that_is_passed(place):
    def passed():
        @cuda.jit
        def scaled(x, factor):
            x[0] = x[0] * factor

        for factor in (2, 3):
            scaled[1, 32](host(), factor)

    return lambda: [launch(define(factor), host()) for factor in (2, 3)], passed


@fix("redefined", "keep one kernel for each, as functools.cache on the function that defines it does: another function "
                  "`function` is other code")
def a_captured_function_with_a_kernel_each(place):
    one, other, cached = device_function(1), device_function(2), functools.cache(defined_with)
    return (lambda: [launch(defined_with(each), host()) for each in (one, other)],
            lambda: [launch(cached(each), host()) for each in (one, one)])


@fix("redefined", "define it once with one set of options, or keep one kernel for each value of fastmath")
def one_set_of_options(place):
    return (lambda: [launch(define(fastmath=each), host()) for each in (False, True)],
            lambda: [launch(kernel, host()) for kernel in [define(fastmath=True)] for _ in range(2)])


@fix("redefined", "apply @cuda.jit to it once, and keep the kernel")
def a_function_that_is_a_kernel_once(place):
    function = untyped().py_func
    return (lambda: [launch(cuda.jit(function), host()) for _ in range(2)],
            lambda: [launch(kernel, host()) for kernel in [cuda.jit(function)] for _ in range(2)])


@fix("redefined", "keep the ufunc's definition out of the cell, loop or function that runs again")
def one_ufunc(place):
    return (lambda: [ufunc()(host(), host()) for _ in range(2)],
            lambda: [add(host(), host()) for add in [ufunc()] for _ in range(2)])


@fix("redefined", "or keep what .T returns")
def one_transposed_array(place):
    array = device(shape=(4, 4))
    return lambda: (array.T, array.T), array.transpose


@fix("new_dtype", "pass arguments `a` and `b` as array.astype(np.float32) in every call")
def a_ufunc_of_one_dtype(place):
    def call(add, *arrays):
        for each in arrays:
            add(each, each)

    return (lambda: call(ufunc(), host(), host(np.float64)),
            lambda: call(ufunc(), host(), host(np.float64).astype(np.float32)))


@fix("recompile", "drop the call of recompile(): nothing that the kernel reads from outside has changed")
def no_recompile(place):
    def used(kernel, *more):
        launch(kernel, host())
        for each in more:
            each(kernel)

    return lambda: used(untyped(), lambda each: each.recompile()), lambda: used(untyped())


@fix("recompile", "pass `FACTOR` as an argument: then a change of it compiles nothing")
def a_global_that_is_passed(place):
    space = {"cuda": cuda, "FACTOR": 2}
    exec("@cuda.jit\ndef kernel(x):\n    x[0] = FACTOR\n\n@cuda.jit\ndef given(x, factor):\n    x[0] = factor\n", space)

    def changed():
        launch(space["kernel"], host())
        space["FACTOR"] = 3
        space["kernel"].recompile()

    def passed():
        for factor in (2, 3):
            space["given"][1, 32](host(), factor)

    return changed, passed


@fix("wait", "launch once in one thread before the others start")
def launched_once_before_the_threads(place):
    def launch_in_threads(kernel, *, first):
        asked, original = threading.Semaphore(0), CUDADispatcher.typeof_pyval

        def typeof_pyval(self, value):
            asked.release()
            return original(self, value)

        threads = [threading.Thread(target=launch, args=(kernel, host())) for _ in range(2)]
        if first:
            launch(kernel, host())
        CUDADispatcher.typeof_pyval = typeof_pyval
        try:
            with global_compiler_lock:
                for each in threads:
                    each.start()
                for _ in threads if not first else ():
                    assert asked.acquire(timeout=600)  # it is about to ask for the lock
            for each in threads:
                each.join()
        finally:
            CUDADispatcher.typeof_pyval = original

    return (lambda: launch_in_threads(untyped(), first=False), lambda: launch_in_threads(untyped(), first=True))


@fix("unknown", "nothing that is known")
def a_specialization_that_somebody_dropped(place):
    def dropped():
        kernel = untyped()
        launch(kernel, host())
        kernel._reset_overloads()
        launch(kernel, host())

    return dropped, None


def test_every_reason_has_a_fix_that_is_tried():
    elsewhere = {"new_device", *triton.CODES, *torch_reasons.CODES,  # frameworks/triton, gpu/test_torch_on_a_gpu.py
                 *(code for code in COMPILE_REASONS if code.startswith(("disk", "cache_")))}
    tried = {code for _, code, _ in FIXES.values()} | {code for _, _, code, _ in CASES.values()}
    assert tried == set(COMPILE_REASONS) - elsewhere  # see test_device_builds.py and test_disk_cache.py


@pytest.mark.parametrize("name", FIXES)
def test_with_the_fix_done_the_compile_is_gone(name, place):
    case, code, words = FIXES[name]
    make, do = case(place)
    definitions.clear()
    before = compiles(make)
    row = [each for each in before if each["reason_code"] == code][-1]
    assert words in row["fix"], (row["reason"], row["fix"])
    if do is None:
        assert row["fix"].startswith(("nothing avoids", "nothing that is known"))
        return
    definitions.clear()
    after = compiles(do)
    if row["outcome"] == "compiled":
        counts = [sum(each["outcome"] == "compiled" for each in rows) for rows in (after, before)]
        assert counts[0] < counts[1], [each["reason"] for each in after]
    assert sum(each["reason_code"] == code for each in after) < sum(each["reason_code"] == code for each in before)


def test_a_cell_that_is_run_again_in_a_recording_of_its_own():
    """As `%%kernelscope` records: each cell by itself."""
    cell = compile("from numba import cuda\n\n@cuda.jit\ndef kernel(x):\n    x[0] = 1\n", "<ipython-input-3-0>", "exec")
    space = {"__name__": "__main__"}

    def run():
        exec(cell, space)
        launch(space["kernel"], host())

    assert [row["reason_code"] for row in compiles(run)] == ["first_use"]
    again, = compiles(run)
    assert again["reason_code"] == "redefined"
    assert "with the same code" in again["reason"]
    assert "keep the definition out of the cell" in again["fix"]
    # The kernel itself is known as well as its name: other types are other types.
    other, = compiles(lambda: launch(space["kernel"], host(np.float64)))
    assert other["reason_code"] == "new_dtype"


def test_what_was_only_launched_while_recording_is_known_too():
    kernel = define()
    launch(kernel, host())
    assert compiles(lambda: launch(kernel, host())) == []
    row, = compiles(lambda: launch(define(), host()))
    assert row["reason_code"] == "redefined"


def test_definitions_that_are_remembered_keep_nothing_alive():
    class Value:
        pass

    def made(value):
        return lambda: value

    function = made(Value())
    definition = definitions.seen("a name", function, {})
    definition.look()
    gone = weakref.ref(function), weakref.ref(function())
    del function
    gc.collect()
    assert [each() for each in gone] == [None, None]
    assert definition.captured


@pytest.mark.slow
def test_whose_a_kernel_is():
    """All dtypes of one ufunc, or of one reduction, are specializations of one kernel."""
    with kernelscope.record() as r:
        launch(untyped(), host())
        add, plus = reduction(), ufunc()
        for dtype in (np.float32, np.float64):
            add(host(dtype))
            plus(host(dtype), host(dtype))
        gufunc("float32")
        device(shape=(4, 4)).transpose()
    dispatchers = r.recording.rows("dispatchers")
    assert [(row["name"].rpartition(".")[2], json.loads(row["attributes"])) for row in dispatchers] == [
        ("kernel", {"owner": "user"}),
        ("gpu_reduce_block_strided", {"owner": "reduce", "function": "reduction.add"}),
        ("__vectorized_add", {"owner": "ufunc", "function": "ufunc.add"}),
        ("__gufunc_copy", {"owner": "ufunc", "function": "gufunc.copy"}),
        ("kernel", {"owner": "library"}),
    ]
    assert dispatchers[2]["arguments"] == "a, b, __out__"
    rows = r.recording.rows("compilations")[1:]
    texts = " ".join(f"{row['reason']} {row['fix']}" for row in rows)
    for word in ("cuda.jit", "griddim", "forall", "Define it once"):
        assert word not in texts
    assert "pass argument `arr` as array.astype(np.float32) in every call" in texts


def test_a_package_s_kernel_is_not_the_user_s(tmp_path):
    folder = tmp_path / "site-packages" / "sample"
    folder.mkdir(parents=True)
    file = folder / "__init__.py"
    file.write_text("from numba import cuda\n\ndef run(x):\n    @cuda.jit\n    def kernel(x):\n        x[0] = 1\n\n"
                    "    kernel[1, 32](x)\n")
    space = {"__name__": "sample", "__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec"), space)
    first, again = compiles(lambda: [space["run"](host()) for _ in range(2)])
    assert first["reason"].endswith("the kernel is of sample, not of your code")
    assert first["fix"] == "nothing avoids it in your code: the kernel is of sample; call it once before it matters"
    assert again["reason_code"] == "redefined"
    assert again["fix"] == "nothing avoids it in your code: sample defines this kernel anew"
