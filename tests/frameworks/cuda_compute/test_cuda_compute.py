"""cuda.compute itself, on the dry run: it builds for real, and what it built fails to launch there."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

compute = pytest.importorskip("cuda.compute")

from cuda.compute import OpKind, ProxyArray  # noqa: E402
from cuda.core import Device  # noqa: E402

import kernelscope  # noqa: E402
from kernelscope import native  # noqa: E402
from kernelscope.analysis.builds import explain_builds  # noqa: E402
from kernelscope.probes.cuda_compute import CudaComputeProbe, _homes, find_factories  # noqa: E402
from kernelscope.probes.cuda_compute.calls import name_of  # noqa: E402
from kernelscope.probes.sink import Sink  # noqa: E402
from kernelscope.recording.model import Recording  # noqa: E402
from kernelscope.recording.parquet import table_of_rows  # noqa: E402

CACHING = sys.modules["cuda.compute._caching"]


@contextmanager
def recording() -> Iterator[Sink]:
    sink, probe = Sink(), CudaComputeProbe()
    probe.install(sink, sink.detail)
    try:
        yield sink
    finally:
        probe.uninstall()
    assert not sink.errors, sink.first_errors
    assert not sink.health, sink.health


@pytest.fixture(autouse=True)
def nothing_is_built() -> None:
    compute.clear_all_caches()


class DeviceArray:
    """An array of the dry run's memory."""

    def __init__(self, size: int, dtype: str = "float32") -> None:
        device = Device()
        device.set_current()
        self.dtype, self.shape = np.dtype(dtype), (size,)
        self.nbytes = size * self.dtype.itemsize
        self.buffer = device.allocate(self.nbytes, stream=device.default_stream)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (int(self.buffer.handle), False), "version": 3,
                "strides": None}


def add(a, b):
    return a + b


def plus(a, b):
    return a + b


def make(op: Any = OpKind.PLUS, dtype: str = "float32", **kwargs: Any) -> Any:
    given = {"d_in": ProxyArray(dtype), "d_out": ProxyArray(dtype), "h_init": np.zeros(1, dtype),
             "compute_capability": 90}
    return compute.make_reduce_into(op=op, **given | kwargs)


def explained(sink: Sink) -> list[dict[str, Any]]:
    rows = [{"build_id": number, **row} for number, row in enumerate(sink.builds)]
    return explain_builds(Recording({"builds": table_of_rows("builds", rows)}, {})).rows("builds")


def errors_of_launches(sink: Sink) -> list[tuple[str, str | None]]:
    targets = [sink.targets.rows[target] for target in sink.log.columns()["target"]]
    return [(sink.dispatchers.rows[target["dispatcher_id"]]["name"], target["error"]) for target in targets]


def test_one_build_and_one_hit() -> None:
    with recording() as sink:
        first = make()
        assert make() is first
    miss, hit = sink.builds
    assert (miss["outcome"], hit["outcome"]) == ("miss", "hit")
    assert miss["algorithm"] == "reduce_into" and miss["compute_capability"] == "9.0"
    assert miss["cubin_bytes"] > 10_000
    assert 0.5 * (miss["end_ns"] - miss["start_ns"]) < miss["build_ns"] <= miss["end_ns"] - miss["start_ns"]
    kernels = json.loads(miss["attributes"])["kernels"]
    assert len(kernels) == 3 and all("DeviceReduce" in name for name in kernels)
    assert hit["end_ns"] - hit["start_ns"] < 10_000_000
    assert json.loads(hit["key_parts"]) == json.loads(miss["key_parts"]) == {
        "d_in kind": "cuda.compute._proxy.ProxyArray", "d_in dtype": "float32",
        "d_out kind": "cuda.compute._proxy.ProxyArray", "d_out dtype": "float32", "op kind": "OpKind.PLUS",
        "h_init kind": "numpy.ndarray", "h_init dtype": "float32", "compute_capability": "9.0"}


def test_operators_name_alone_is_a_full_build() -> None:
    with recording() as sink:
        make(add)
        make(add)
        make(plus)
    rows = explained(sink)
    assert [row["reason_code"] for row in rows] == ["first_use", None, "new_operator_name"]
    assert rows[2]["differing_parts"] == "op name"
    assert "add to plus" in rows[2]["reason"] and "keep one named function" in rows[2]["fix"]
    assert rows[2]["build_ns"] > 100_000_000


def scaled_by(factor: Any) -> Any:
    def scaled(a, b):
        return a + factor * b

    return scaled


def test_captured_number_is_compiled_in_and_not_shown() -> None:
    with recording() as sink:
        make(scaled_by(31337))
        make(scaled_by(31337))
        make(scaled_by(31338))
    rows = explained(sink)
    assert [row["outcome"] for row in rows] == ["miss", "hit", "miss"]
    assert (rows[2]["reason_code"], rows[2]["differing_parts"]) == ("new_operator_value", "op captured factor")
    assert "3133" not in json.dumps([{name: value for name, value in row.items() if isinstance(value, str)}
                                     for row in rows]), "a number of the user's; instants have such digits by chance"


def test_other_types_and_devices() -> None:
    with recording() as sink:
        make()
        make(dtype="float64")
        make(compute_capability=[80, 90])
        make(determinism=compute.Determinism.NOT_GUARANTEED)
    rows = explained(sink)
    assert [row["reason_code"] for row in rows] == ["first_use", "new_dtype", "new_device", "new_option"]
    assert [row["compute_capability"] for row in rows] == ["9.0", "9.0", "8.0, 9.0", "9.0"]
    assert rows[3]["differing_parts"] == "determinism"


def test_iterators_by_kind_type_and_operator() -> None:
    def square(a):
        return a * a

    def cube(a):
        return a * a * a

    def transformed(op: Any) -> Any:
        return compute.TransformIterator(compute.CountingIterator(np.int32(0)), op)

    zeros = {"d_out": ProxyArray("int32"), "h_init": np.zeros(1, "int32")}
    with recording() as sink:
        make(d_in=compute.CountingIterator(np.int32(0)), **zeros)
        make(d_in=transformed(square), **zeros)
        make(d_in=transformed(square), **zeros)
        make(d_in=transformed(cube), **zeros)
    rows = explained(sink)
    assert [row["outcome"] for row in rows] == ["miss", "miss", "hit", "miss"]
    assert [row["reason_code"] for row in rows] == ["first_use", "new_iterator", None, "new_operator"]
    parts = json.loads(rows[1]["key_parts"])
    assert parts["d_in kind"] == "TransformIterator(op, CountingIterator)"
    assert parts["d_in dtype"] == "int32, int64" and parts["d_in op name"] == "square"
    assert json.loads(rows[0]["key_parts"])["d_in kind"] == "CountingIterator"
    assert rows[3]["differing_parts"] == "d_in op name, d_in op code"


def test_cleared_caches() -> None:
    with recording() as sink:
        make()
        compute.clear_all_caches()
        make()
    assert [row["reason_code"] for row in explained(sink)] == ["first_use", "cache_cleared"]


def test_select_is_one_request() -> None:
    with recording() as sink:
        for _ in range(2):
            compute.make_select(d_in=ProxyArray("int32"), d_out=ProxyArray("int32"), compute_capability=90,
                                d_num_selected_out=ProxyArray("int32"), cond=even)
    assert [(row["algorithm"], row["outcome"]) for row in sink.builds] == [("select", "miss"), ("select", "hit")]
    assert sink.builds[0]["cubin_bytes"] > 1000 and sink.builds[0]["compute_capability"] == "9.0"


def even(a):
    return a % 2 == 0


def test_two_threads_ask_for_one_build() -> None:
    barrier = threading.Barrier(2)

    def ask() -> None:
        barrier.wait()
        make()

    with recording() as sink:
        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        make()
    assert sorted(row["outcome"] for row in sink.builds) == ["hit", "miss", "wait"]
    assert len({row["thread_id"] for row in sink.builds}) == 3


def test_operator_that_does_not_compile() -> None:
    def broken(a, b):
        return no_such_name(a)  # noqa: F821

    with recording() as sink, pytest.raises(Exception, match="no_such_name") as caught:
        make(broken)
    assert [row["outcome"] for row in sink.builds] == ["failed"]
    assert sink.builds[0]["error"].startswith(type(caught.value).__name__)


def test_call_for_the_current_device(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"d_in": DeviceArray(64), "d_out": DeviceArray(1), "num_items": 64, "op": OpKind.PLUS,
             "h_init": np.zeros(1, np.float32)}
    with recording() as sink, pytest.raises(RuntimeError, match="error code: 500"):
        compute.reduce_into(**given)  # NVIDIA's runtime wants more of a driver than the dry run has
    assert errors_of_launches(sink) == [("reduce_into", "RuntimeError")]
    assert [row["compute_capability"] for row in sink.builds] == ["9.0"]

    home = sys.modules["cuda.compute.algorithms._reduce"]
    monkeypatch.setattr(home._Reduce, "_bind_device_reduce_fn",
                        lambda self: setattr(self, "device_reduce_fn", lambda *_: 8))
    monkeypatch.setattr(home, "TempStorageBuffer", lambda size, stream: DeviceArray(size))
    stream = Device().create_stream()
    with recording() as sink:
        compute.reduce_into(**given)
        compute.reduce_into(**given, stream=stream)
        built = compute.make_reduce_into(**{name: given[name] for name in ("d_in", "d_out", "op", "h_init")})
        assert built(temp_storage=None, **given) == 8
        built(temp_storage=DeviceArray(8), **given)
    assert errors_of_launches(sink) == [("reduce_into", None)] * 3
    assert [row["outcome"] for row in sink.builds] == ["hit"] * 3
    assert [row["stream"] for row in sink.configurations.rows] == [0, int(stream.handle)]


def test_recording_of_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    home = sys.modules["cuda.compute.algorithms._reduce"]
    monkeypatch.setattr(home._Reduce, "_bind_device_reduce_fn",
                        lambda self: setattr(self, "device_reduce_fn", lambda *_: 8))
    monkeypatch.setattr(home, "TempStorageBuffer", lambda size, stream: DeviceArray(size))
    values, out = DeviceArray(64), DeviceArray(1)
    with kernelscope.record("reduce") as r:
        for op in (OpKind.PLUS, OpKind.PLUS, OpKind.MINIMUM):
            compute.reduce_into(d_in=values, d_out=out, num_items=64, op=op, h_init=np.zeros(1, np.float32))
    recording = r.recording
    assert recording.builds.outcome.tolist() == ["miss", "hit", "miss"]
    assert recording.builds.launch_id.tolist() == [0, 1, 2]
    assert recording.builds.reason_code.tolist()[::2] == ["first_use", "new_operator"]
    assert recording.launches.dispatcher_id.nunique() == 1
    assert recording.metadata["packages"]["cuda-cccl"] == "1.2.1"
    problems = [row for row in recording.rows("health") if row["probe"] == "cuda.compute" and row["status"] != "ok"]
    assert problems == []
    assert "reduce_into" in recording.summary()


def test_algorithms_that_share_a_factory() -> None:
    given = {"d_data": ProxyArray("int32"), "d_values": ProxyArray("int32"), "d_out": ProxyArray("uint64"),
             "compute_capability": 90}
    with recording() as sink:
        compute.make_lower_bound(**given)
        compute.make_lower_bound(**given)
        compute.make_upper_bound(**given)
    assert [(row["algorithm"], row["outcome"]) for row in sink.builds] == [
        ("lower_bound", "miss"), ("lower_bound", "hit"), ("upper_bound", "miss")]


def test_every_algorithm_is_hooked() -> None:
    algorithms = [name for name in compute.__all__ if f"make_{name}" in compute.__all__]
    assert len(algorithms) >= 14
    classes = [each for module in _homes() for each in vars(module).values()
               if isinstance(each, type) and each.__module__ == module.__name__ and "__call__" in dir(each)
               and not each.__name__.startswith(("_BinarySearch", "_Scan")) and hasattr(each, "serialize")]
    named = {name_of(object.__new__(each)) for each in classes}
    assert named == set(algorithms) - {"exclusive_scan", "inclusive_scan"}
    functions = [getattr(compute, name) for name in algorithms] + list(find_factories(CACHING).values())
    functions += [vars(each)["__call__"] for each in classes if "__call__" in vars(each)]
    before = [(each.__code__, dict(each.__kwdefaults__ or {}), dict(vars(each)), str(inspect.signature(each)))
              for each in functions]
    with recording():
        taken = list(map(id, native.core.taken()))
        assert [each for each, held in zip(functions, before, strict=True)
                if each.__code__ is held[0] and id(each) not in taken] == []
        assert [str(inspect.signature(each)) for each in functions] == [held[3] for held in before]
    after = [(each.__code__, dict(each.__kwdefaults__ or {}), dict(vars(each)), str(inspect.signature(each)))
             for each in functions]
    assert after == before
    assert {name.removeprefix("_") for name in find_factories(CACHING)} >= {
        f"make_{name}" for name in algorithms if name not in ("lower_bound", "upper_bound", "histogram_even")}


def test_imported_while_recording() -> None:
    script = (
        "import kernelscope.dryrun; kernelscope.dryrun.enable()\n"
        "from kernelscope.probes.cuda_compute import CudaComputeProbe\n"
        "from kernelscope.probes.sink import Sink\n"
        "sink, probe = Sink(), CudaComputeProbe()\n"
        "probe.install(sink, 'phases')\n"
        "import sys; assert 'cuda.compute' not in sys.modules\n"
        "from cuda.compute import make_reduce_into\n"
        "from kernelscope.native import core; assert make_reduce_into in core.taken()\n"
        "probe.uninstall()\n"
        "assert core.taken() == []\n"
        "assert not sink.health and not sink.errors, (sink.health, sink.first_errors)\n")
    ran = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
