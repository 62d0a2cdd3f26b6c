"""Reasons of compiles that numba-cuda really made: each case launches twice, or is as users meet it."""

from __future__ import annotations

import collections
import enum

import numpy as np
import pytest
from numba import cuda
from numba.cuda import launchconfig, types
from numba.cuda.extending import overload

import kernelscope

# Host arrays are what is told apart here.
pytestmark = pytest.mark.filterwarnings("ignore:Host array used in CUDA kernel")

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


def compiled_for(first, second):
    """The compile that the second of two launches made, and how many there were."""

    @cuda.jit
    def kernel(x, n):
        pass

    with kernelscope.record() as r:
        kernel[1, 32](first(), 1)
        try:
            kernel[1, 32](second(), 1)
        except NotImplementedError:
            assert second() is None, "None is compiled for, and then refused by the launch"
    return r.recording.rows("compilations")[1:], r.recording


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
    "no dimensions": (host, lambda: host(shape=()), "new_dimensions", "dimensions (1 to 0)"),
    "slice": (device, lambda: device()[::2], "new_layout",
              "C to A: not contiguous; np.ascontiguousarray or .copy() makes it C"),
    "contiguous again": (lambda: device()[::2], device, "new_layout", "A to C"),
    "column-major": (lambda: device(shape=(4, 4)), lambda: device(shape=(4, 4), order="F"), "new_layout",
                     "C to F: column-major"),
    "row-major": (lambda: device(shape=(4, 4), order="F"), lambda: device(shape=(4, 4)), "new_layout",
                  "np.asfortranarray makes it F"),
    "transposed": (lambda: host(shape=(4, 4)), lambda: host(shape=(4, 4)).T, "new_layout", "C to F"),
    "read-only": (host, lambda: readonly(host()), "new_access", "read-only, not writable"),
    "writable again": (lambda: readonly(host()), host, "new_access", "writable, not read-only"),
    "read-only by interface": (device, lambda: Foreign(device(), True), "new_access", "read-only, not writable"),
    "broadcast": (lambda: host(shape=(4, 4)), lambda: np.broadcast_to(host(), (8, 8)), "new_layout", "read-only"),
    "np.int32": (lambda: 1, lambda: np.int32(1), "new_scalar", "np.int32; the nearest known specialization has int64, "
                 "as a Python int is"),
    "Python int": (lambda: np.int32(1), lambda: 1, "new_scalar", "int64, as a Python int is; the nearest"),
    "unsigned": (lambda: 2**63, lambda: 1, "new_scalar", "np.uint64"),
    "float": (lambda: 1, lambda: 1.5, "new_scalar", "float64, as a Python float is"),
    "np.float32": (lambda: 1.5, lambda: np.float32(1), "new_scalar", "np.float32"),
    "complex": (lambda: 1.5, lambda: 1j, "new_scalar", "complex128, as a Python complex is"),
    "bool": (lambda: 1, lambda: True, "new_scalar", "is bool; the nearest known specialization has int64"),
    "date": (lambda: np.datetime64(1, "D"), lambda: np.datetime64(1, "s"), "new_scalar", "datetime64[s]"),
    "tuple length": (lambda: (1, 2), lambda: (1, 2, 3), "tuple_arity", "UniTuple(int64 x 3)"),
    "mixed tuple length": (lambda: (1, 2.0), lambda: (1, 2.0, 3), "tuple_arity", "elements (2 to 3)"),
    "empty tuple": (lambda: (), lambda: (1,), "tuple_arity", "elements (0 to 1)"),
    "inner tuple": (lambda: (1, (1, 2)), lambda: (1, (1,)), "tuple_arity", "argument `x[1]` is the tuple"),
    "tuple element": (lambda: (1, 2), lambda: (1, 2.0), "new_scalar", "argument `x[1]` is float64"),
    "array in a tuple": (lambda: (host(), 1), lambda: (host(np.int8), 1), "new_dtype", "argument `x[0]` is array(int8"),
    "named tuple": (lambda: Point(1, 2), lambda: Place(1, 2), "new_type", "named tuple Place(int64 x 2)"),
    "element of a named tuple": (lambda: Point(1, 2), lambda: Point(1, 2.0), "new_scalar", "argument `x[1]`"),
    "tuple for a named one": (lambda: Point(1, 2), lambda: (1, 2), "new_type", "the tuple UniTuple(int64 x 2)"),
    "array for a number": (lambda: 1, host, "new_type", "array(float32, 1d, C)"),
    "number for an array": (host, lambda: 1, "new_type", "int64, as a Python int is"),
    "enum": (lambda: 1, lambda: Color.RED, "new_type", "a member of an enum, IntEnum<int64>(Color)"),
    "other enum": (lambda: Color.RED, lambda: Hue.RED, "new_type", "Enum<int64>(Hue)"),
    "None": (lambda: 1, lambda: None, "optional", "argument `x` is None"),
    "record": (lambda: host(PACKED)[0], lambda: 1, "new_type", "record(a int8, b float32)"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_second_launch_of_another_type(case):
    first, second, code, words = CASES[case]
    (row,), recording = compiled_for(first, second)
    assert row["reason_code"] == code
    assert words in row["reason"]
    assert row["argument"] == "x"
    assert row["nearest_signature"] == recording.rows("compilations")[0]["signature"]
    assert row["fix"] and "argument `x" in row["fix"]


@pytest.mark.parametrize(("first", "second"), [
    (host, device), (device, host), (host, lambda: cuda.pinned_array(8, np.float32)),
    (device, lambda: Foreign(device(), False)), (host, lambda: host(shape=(1,))),
    (lambda: 1, lambda: np.int64(1)), (lambda: 1.5, lambda: np.float64(1)), (lambda: True, lambda: np.bool_(1)),
    (lambda: host([("a", "i4"), ("b", "f4")]), lambda: host(np.dtype([("a", "i4"), ("b", "f4")], align=True))),
])
def test_what_needs_no_second_compile(first, second):
    assert compiled_for(first, second)[0] == []


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


def test_too_few_arguments():
    @cuda.jit
    def kernel(x, n=1):
        pass

    with kernelscope.record() as r, pytest.raises(TypeError, match="mismatch"):
        kernel[1, 32](host())
    row, = r.recording.rows("compilations")
    assert (row["reason_code"], row["outcome"]) == ("argument_count", "failed")
    assert "given 1 argument and takes 2: `x`, `n`" in row["reason"]


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


def test_eager_recompiled_and_asked_for():
    with kernelscope.record() as r:
        @cuda.jit(["void(float32[::1])", "void(float64[::1])"])
        def eager(x):
            pass

        @cuda.jit
        def lazy(x):
            pass

        lazy.compile((types.float32[::1],))
        lazy.recompile()
    rows = r.recording.rows("compilations")
    assert [row["reason_code"] for row in rows] == ["eager", "eager", "first_use", "recompile"]
    assert "kernel.compile() asked for it" in rows[2]["reason"]


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


def test_what_was_compiled_before_recording_is_known(kernels):
    sensitive = kernels.sensitive
    sensitive[1, 32](host())
    with kernelscope.record() as r:
        sensitive[3, 32](host())
    row, = r.recording.rows("compilations")
    assert row["reason_code"] == "launch_config"
    assert "griddim 3 instead of 1" in row["reason"]


def define(factor=2):
    @cuda.jit
    def scaled(x):
        x[0] = x[0] * factor

    return scaled


def test_definitions_that_run_again():
    with kernelscope.record() as r:
        for factor in (2, 3):
            define(factor)[1, 32](host())
        again = define()
        cuda.jit(again.py_func)[1, 32](host(np.int8))
        cuda.jit(again.py_func)[1, 32](host(np.int8))
    rows = r.recording.rows("compilations")
    assert [row["reason_code"] for row in rows] == ["first_use", "redefined", "redefined", "redefined"]
    assert "the definition ran again with the same code" in rows[1]["reason"]
    assert "applied to this function again" in rows[3]["reason"]
    codes = r.recording.dispatchers.code_sha256
    assert codes.nunique() == 1
    assert len(codes) == 3


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


def test_churn_is_advice():
    @cuda.jit
    def kernel(x, n):
        pass

    with kernelscope.record() as r:
        for dtype in (np.int8, np.int16, np.int32, np.int64, np.float32):
            kernel[1, 32](host(), dtype(1))
        for _ in range(3):
            define()[1, 32](host())
    summary = " ".join(r.recording.summary().split())
    assert "argument `n` of" in summary
    assert ("took 5 types while all others stayed as they were (int8, int16, int32, int64 and 1 more): 5 compiles"
            in summary)
    assert ("define.scaled was defined again with the same code, and compiled again for the same types: 3 compiles"
            in summary)


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
