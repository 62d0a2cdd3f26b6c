"""CuPy's compiles, with a stand-in of its compiler that has the same functions, and sources as CuPy generates them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

import kernelscope
from kernelscope.analysis.compiles import explain
from kernelscope.errors import ProbeUnavailableError
from kernelscope.frameworks.cupy.hooks import CupyProbe, kernels, options_of, self_check
from kernelscope.probes.sink import Sink
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import redact

COMPILER = '''
class Module:
    mapping = None


class _DiskKernelCacheBackend:
    _cache_dir = "/cache"

    def __init__(self):
        self.files = {}

    def load(self, name):
        return self.files.get(name)


_kernel_cache_backend = _DiskKernelCacheBackend()


def _get_arch():
    return "90"


def _compile_using_nvrtc_no_warning(source, options=(), arch=None, filename="kern.cu", name_expressions=None,
                                    log_stream=None, cache_in_memory=False, jitify=None, method=None):
    if "error" in source:
        raise ValueError("kern.cu(1): error")
    return b"cubin", {name: "_Z" + name for name in name_expressions or ()}


def _compile_with_cache_cuda(source, options, arch, extra_source=None, backend="nvrtc", enable_cooperative_groups=False,
                             name_expressions=None, log_stream=None, cache_in_memory=False, jitify=False,
                             to_ltoir=False):
    _compile_using_nvrtc_no_warning("", options, arch)
    key = repr((source, options, arch or _get_arch(), name_expressions))
    module = Module()
    if not cache_in_memory and _kernel_cache_backend.load(key) is not None:
        return module
    _, module.mapping = _compile_using_nvrtc_no_warning(source, options, arch, key, name_expressions)
    _kernel_cache_backend.files[key] = b"cubin"
    return module
'''


def carray(dtype: str = "float", ndim: int = 1, contiguous: int = 1, short: int = 1) -> str:
    return f"CArray<{dtype}, {ndim}, {contiguous}, {short}, 0>"


def elementwise(x: str, y: str = "", name: str = "twice", operation: str = "y = x * 2") -> str:
    """A source as ElementwiseKernel makes it."""
    return f"""
    typedef float T;
    extern "C" __global__ void {name}(const {x} _raw_x, {y or carray()} _raw_y, CIndexer<1, 1> _ind) {{
      CUPY_FOR(i, _ind.size()) {{ {operation}; }}
    }}"""


def ufunc(types: str, x: str, y: str) -> str:
    return elementwise(x, y, f"cupy_multiply__{types}")


def raw(body: str = "x[0] = n;", arguments: str = "float* __restrict__ x, const int n") -> str:
    return f'extern "C" __global__ __launch_bounds__(256) void axpy({arguments}) {{ {body} }}  // __global__ void no('


def reduction(dtype: str = "float", block: int = 256, name: str = "total_pass1") -> str:
    """A source as CuPy makes it of a ReductionKernel that CUB runs: addresses, and their types elsewhere."""
    return f"""
    #include <cub/block/block_reduce.cuh>
    typedef {dtype} T;\ntypedef int IndexT;\ntypedef int sizeT;
    typedef {dtype} type_in0_raw;\ntypedef {dtype} type_out0_raw;
    typedef {dtype} _type_reduce;
    #define ITEMS_PER_THREAD  4
    #define BLOCK_SIZE        {block}
    extern "C"
    __global__ void {name}(const void* _raw_in0, void* _raw_out0, const int _segment_size, const int _array_size) {{
      typedef cub::BlockReduce<_type_reduce, BLOCK_SIZE> BlockReduceT;
    }}"""


def own_reduction(name: str = "total") -> str:
    """A source as CuPy makes it of one that it runs itself."""
    return f"""
    typedef float T;
    typedef float _type_reduce;
    extern "C" __global__ void {name}(const {carray(contiguous=0)} _raw_x, {carray()} _raw_y, CIndexer<1, 1> _in_ind,
                                      CIndexer<1, 1> _out_ind, const int _block_stride) {{
      __shared__ char _sdata_raw[512 * sizeof(_type_reduce)];
    }}"""


@pytest.fixture
def compiler() -> Iterator[Any]:
    """The stand-in, imported as ``cupy.cuda.compiler``."""
    module, package = ModuleType("cupy.cuda.compiler"), ModuleType("cupy")
    package.__version__ = "14.2.0"
    exec(compile(COMPILER, "compiler.py", "exec"), vars(module))
    sys.modules.update({"cupy": package, "cupy.cuda.compiler": module})
    yield module
    del sys.modules["cupy"], sys.modules["cupy.cuda.compiler"]


def compiles(recording: Recording) -> list[dict[str, Any]]:
    return explain(recording).rows("compilations")


def test_compiles_and_loads(compiler: Any) -> None:
    with kernelscope.record() as recorder:
        for _ in range(2):
            compiler._compile_with_cache_cuda(raw(), ("-std=c++17", "-DN=4", "-I/include"), None)
    recording = recorder.recording
    first, second = compiles(recording)
    assert [(row["outcome"], row["reason_code"], row["trigger"]) for row in (first, second)] == [
        ("compiled", "first_use", "compile"), ("disk", "disk", "compile")]
    assert first["cache_file"] == "/cache/" + first["cache_key"]
    assert second["reason"] == "not compiled: CuPy's disk cache had it" and second["fix"] is None
    (dispatcher,) = recording.rows("dispatchers")
    assert (dispatcher["framework"], dispatcher["name"], dispatcher["arguments"]) == ("cupy", "axpy", "x, n")
    (specialization,) = recording.rows("specializations")
    assert specialization["signature"] == "(float32*, int32)" and specialization["entry_name"] == "axpy"
    assert specialization["compute_capability"] == "9.0"
    assert json.loads(specialization["attributes"])["options"] == {"-std": "c++17", "-DN": "4"}
    assert [(row["name"], row["compilation_id"]) for row in recording.rows("passes")] == [("nvrtc", 0)]


@dataclass(frozen=True)
class Change:
    """Two compiles that differ, the reason of the second one, and how its fix makes the call again."""

    name: str
    first: str
    second: str
    code: str
    argument: str | None
    says: str
    fix: str
    given: tuple[dict[str, Any], dict[str, Any]] = field(default_factory=lambda: ({}, {}))


CHANGES = [
    Change("dtype of a ufunc", ufunc("float32_float_float32", carray(), carray()),
           ufunc("float64_float_float64", carray("double"), carray("double")), "new_dtype", "x",
           "argument `x` is float64; the nearest known specialization has float32; `y` differs too",
           "nothing avoids it in your code: CuPy makes this kernel itself"),
    Change("dtype of an ElementwiseKernel", elementwise(carray()), elementwise(carray("complex<float>")), "new_dtype",
           "x", "argument `x` is complex64", "pass `x` with the dtype complex64 in every call"),
    Change("a number instead of an array", elementwise(carray()), elementwise("float"), "new_type", "x",
           "argument `x` is float32; the nearest known specialization has an array of float32",
           "pass `x` as an array of float32 in every call"),
    Change("dimensions", elementwise(carray()), elementwise(carray(ndim=2, contiguous=0)), "new_dimensions", "x",
           "argument `x` has 2 dimensions; the nearest known specialization has 1",
           "pass `x` with 1 dimension in every call"),
    Change("layout", elementwise(carray()), elementwise(carray(contiguous=0)), "new_layout", "x",
           "argument `x` is not C-contiguous; the nearest known specialization is for one that is C-contiguous",
           "pass cupy.ascontiguousarray(x) in every call"),
    Change("indices", elementwise(carray()), elementwise(carray(short=0)), "new_type", "x", "is indexed with int64",
           "nothing avoids it: an array of this size needs int64 for its indices"),
    Change("operation", elementwise(carray()), elementwise(carray(), operation="y = x"), "redefined", None,
           "its code is new", "nothing avoids it: new code has to be compiled"),
    Change("source of a RawKernel", raw(), raw("x[0] = n + 1;", "double* x, const int n"), "redefined", None,
           "its code is new; the nearest known specialization of this name has another one; `x` differs too",
           "nothing avoids it: new code has to be compiled; what changes from call to call can be an argument"),
    Change("option", raw(), raw(), "new_option", None,
           "--use_fast_math is given; in the nearest known specialization it is not given",
           "make the kernel without --use_fast_math every time", ({}, {"options": ("--use_fast_math",)})),
    Change("value of an option", raw(), raw(), "new_option", None,
           "-DN is 8; in the nearest known specialization it is 4",
           "make the kernel with -DN=4 every time", ({"options": ("-DN=4",)}, {"options": ("-DN=8",)})),
    Change("architecture", raw(), raw(), "new_device", None, "it was compiled for sm_80; the nearest known "
           "specialization is for sm_90", "nothing avoids it: each architecture", ({}, {"arch": "80"})),
    Change("template", "template<class T> __global__ void f(T* x) {}", "template<class T> __global__ void f(T* x) {}",
           "new_constexpr", "template", "the constant `template` is <double>", "nothing avoids it: each instance",
           ({"name_expressions": ("f<float>",)}, {"name_expressions": ("f<double>",)})),
    Change("dtype of a reduction", reduction(), reduction("double"), "new_dtype", "in0",
           "argument `in0` is float64; the nearest known specialization has float32; `out0` differs too",
           "pass `in0` with the dtype float32 in every call"),
    Change("length of a reduction", reduction(), reduction(block=512), "new_constexpr", "BLOCK_SIZE",
           "the constant `BLOCK_SIZE` is 512; the nearest known specialization has 256",
           "nothing avoids it: CuPy chooses it by how many elements are reduced"),
    Change("layout of a reduction", reduction(name="total"), own_reduction(), "new_layout", None,
           "it reduces with CuPy; the nearest known specialization with CUB",
           "nothing avoids it: CuPy takes CUB where"),
    Change("again without the disk cache", raw(), raw(), "recompile", None, "CUPY_CACHE_IN_MEMORY is set",
           "unset CUPY_CACHE_IN_MEMORY", ({"cache_in_memory": True}, {"cache_in_memory": True})),
]


@pytest.mark.parametrize("change", CHANGES, ids=[change.name for change in CHANGES])
def test_changes(compiler: Any, change: Change) -> None:
    with kernelscope.record() as recorder:
        for source, given in zip((change.first, change.second), change.given, strict=True):
            compiler._compile_with_cache_cuda(source, **{"options": (), "arch": None, **given})
    first, row = compiles(recorder.recording)
    assert (first["reason_code"], row["outcome"]) == ("first_use", "compiled")
    assert (row["reason_code"], row["argument"]) == (change.code, change.argument)
    assert change.says in row["reason"] and row["fix"].startswith(change.fix)
    codes = [row["reason_code"] for row in redact(recorder.recording).rows("compilations")]
    assert codes == ["first_use", change.code]
    assert change.says[:20] in repr(recorder.recording)


def test_names_and_arguments_of_sources() -> None:
    assert [(entry, name) for entry, name, *_ in kernels(ufunc("float32_float_float32", carray(), carray()), {})] == [
        ("cupy_multiply__float32_float_float32", "cupy_multiply")]
    assert kernels("__global__ void my__kernel(int* a, const float b[4]) {} __global__ void g() {}", {}) == [
        ("my__kernel", "my__kernel", {"a": {"type": "int32*"}, "b": {"type": "float32"}}, {}), ("g", "g", {}, {})]
    assert kernels("template<class T> __global__ void f(T* x) {}", {"ns::f<float>": "_Z1f"})[0][:2] == ("_Z1f", "f")
    arguments = {name: {"type": "float32", "array": True, "index": "int32"} for name in ("in0", "out0")}
    assert kernels(reduction(), {}) == [("total_pass1", "total_pass1", arguments, {
        "reduction": "CUB", "ITEMS_PER_THREAD": "4", "BLOCK_SIZE": "256"})]
    ((_, _, arguments, constants),) = kernels(own_reduction(), {})
    assert ([*arguments], constants) == (["x", "y"], {"reduction": "CuPy", "BLOCK_SIZE": "512"})
    assert kernels("// nothing", {}) == [("unknown", "unknown", {}, {})]
    assert options_of({"options": ("-lto", "-DX"), "backend": "nvcc"}) == {"-lto": True, "-DX": True, "backend": "nvcc"}


def test_failures_pass_untouched(compiler: Any) -> None:
    with kernelscope.record() as recorder, pytest.raises(ValueError, match="error") as failed:
        compiler._compile_with_cache_cuda(raw("error"), (), None)
    assert all("kernelscope/probes" not in str(each.path) for each in failed.traceback)
    (row,) = compiles(recorder.recording)
    assert (row["outcome"], row["error"]) == ("failed", "ValueError: kern.cu(1): error")
    assert row["fix"].startswith("correct what the error names")


def test_what_the_probe_does_wrong_is_ours(compiler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_get_arch", lambda: 1 / 0 if sys._getframe(1).f_code.co_name == "_target" else "90")
    with kernelscope.record() as recorder:
        assert compiler._compile_with_cache_cuda(raw(), (), None) is not None
    assert any("ZeroDivisionError" in str(row["message"]) for row in recorder.recording.rows("health"))


def test_nothing_is_left_behind(compiler: Any) -> None:
    functions = [compiler._compile_with_cache_cuda, compiler._compile_using_nvrtc_no_warning,
                 compiler._DiskKernelCacheBackend.load]
    before = [(each, each.__code__, each.__defaults__, each.__kwdefaults__) for each in functions]
    with kernelscope.record():
        assert functions[0].__code__ is not before[0][1]
    assert [(each, each.__code__, each.__defaults__, each.__kwdefaults__) for each in (
        compiler._compile_with_cache_cuda, compiler._compile_using_nvrtc_no_warning,
        compiler._DiskKernelCacheBackend.load)] == before


def test_other_functions_are_refused(compiler: Any) -> None:
    compiler._compile_with_cache_cuda = lambda code: None
    del compiler._compile_using_nvrtc_no_warning
    assert len(self_check(compiler)) == 2
    with pytest.raises(ProbeUnavailableError, match=r"cupy 14.2.0 has other functions .* those of 14 are"):
        CupyProbe().hook(compiler, Sink())


def test_an_untried_version_says_so(compiler: Any) -> None:
    sys.modules["cupy"].__version__ = "15.0.0"
    with kernelscope.record() as recorder:
        compiler._compile_with_cache_cuda(raw(), (), None)
    assert len(recorder.recording.compilations) == 1
    assert any("15.0.0 was not tried" in str(row["message"]) for row in recorder.recording.rows("health"))
