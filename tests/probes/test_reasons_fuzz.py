"""Whatever two launches are given: the second compile's reason names an argument whose type really is another."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba import cuda

import kernelscope
from kernelscope.analysis.signatures import parse_signature
from kernelscope.probes.functions import definitions
from kernelscope.schema import COMPILE_REASONS

pytestmark = pytest.mark.filterwarnings("ignore:.*Host array used in CUDA kernel")

NAMES = ("x", "y", "n")
DTYPES = ("?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "M8[s]", "U2", "i4,f4", "i1,f8")


@st.composite
def arrays(draw):
    """Host arrays of dtype, dimensions and layout, some read-only; device arrays, some strided."""
    dtype, ndim = np.dtype(draw(st.sampled_from(DTYPES))), draw(st.integers(0, 3))
    order = draw(st.sampled_from("CF"))
    array = np.zeros((4,) * ndim, np.dtype(dtype, align=True) if draw(st.booleans()) else dtype, order=order)
    kind = draw(st.sampled_from(("host", "readonly", "device", "strided")))
    if kind == "readonly":
        array.flags.writeable = False
    # Host arrays that are strided, and records and dates on the device, do not get as far as a launch.
    if kind == "strided" and ndim and dtype.kind in "biufc":
        return cuda.to_device(array)[::2]
    return cuda.to_device(array) if kind == "device" and dtype.kind in "biufc" else array


SCALARS = st.one_of(
    st.booleans(), st.integers(-2**31, 2**31), st.floats(allow_nan=False), st.complex_numbers(allow_nan=False),
    st.sampled_from(("i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "?")).map(
        lambda text: np.dtype(text).type(1)),
)
TUPLES = st.recursive(
    st.one_of(arrays(), SCALARS), lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)
ANY = st.one_of(arrays(), SCALARS, TUPLES, st.none())
#: What one argument is in the first launch and in the second: the same value, of the same kind, or anything.
PAIRS = st.one_of(
    ANY.map(lambda value: (value, value)), st.tuples(arrays(), arrays()), st.tuples(SCALARS, SCALARS),
    st.tuples(TUPLES, TUPLES), st.tuples(ANY, ANY),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True, database=None,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(PAIRS, PAIRS, PAIRS)
def test_the_reason_names_an_argument_that_differs(x, y, n):
    definitions.clear()

    @cuda.jit
    def kernel(x, y, n):
        pass

    with kernelscope.record() as r:
        for values in zip(x, y, n, strict=True):
            # What numba-cuda cannot pass it has compiled for all the same.
            with contextlib.suppress(NotImplementedError, BufferError, ValueError):
                kernel[1, 32](*values)
    rows = r.recording.rows("compilations")
    assert rows[0]["reason_code"] == "first_use"
    assert len(rows) == 1 + (rows[0]["signature"] != rows[-1]["signature"])
    assert r.recording.health.errors.isna().all()
    for row in rows[1:]:
        known, wanted = (parse_signature(each["signature"]) for each in rows)
        assert row["reason_code"] in COMPILE_REASONS
        assert row["nearest_signature"] == rows[0]["signature"]
        at = NAMES.index(row["argument"])
        assert known[at].text != wanted[at].text, "it names an argument that did not change"
        differing = {name for name, old, new in zip(NAMES, known, wanted, strict=True) if old.text != new.text}
        compared = re.sub(r"argument `\w+` is [^;]*, which no launch takes", "", row["reason"])
        named = {name for name in NAMES if f"`{name}`" in compared or f"`{name}[" in compared}
        assert named <= differing
        assert row["fix"]
