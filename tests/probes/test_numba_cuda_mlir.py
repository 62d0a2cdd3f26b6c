"""The probe of numba-cuda-mlir against a stand-in, without the framework; `tests/frameworks` has the rest."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from kernelscope.probes.base import Patches
from kernelscope.probes.numba_cuda_mlir import NumbaCudaMlirProbe, self_check
from kernelscope.probes.numba_cuda_mlir.kernels import KernelRows, mlir_text
from kernelscope.probes.numba_cuda_mlir.launch import LaunchHooks
from kernelscope.probes.sink import Sink
from kernelscope.recorder.recorder import Recorder


class Marshaller:
    """A configured launch that has no GPU behind it."""

    def __init__(self, launcher=None):
        self._launcher = launcher or object()
        self._types = [int, float]
        self._available_launch_config = self._launch_stream = self._stream_ref = None
        self.launched = []

    def __call__(self, *args):
        return self._launch(self._types, args)

    def _launch(self, argtypes, launch_args, launch_values=None):
        self.launched.append(launch_args)
        for each in launch_args:
            if isinstance(each, Exception):
                raise each
        return len(launch_args)


MODULE = SimpleNamespace(_ArgMarshaller=Marshaller)


class Hooked:
    """The hooks on `Marshaller` as a context manager."""

    def __init__(self, detail="phases", **answers):
        self.sink = Sink(detail=detail)
        self.asked = []

        def target(marshaller, types, error):
            if types is not None or error is not None:  # the hook asks for a launch's dispatcher where it begins
                self.asked.append((types, error))
            return self.sink.target(0, error=error)

        self.hooks = LaunchHooks(self.sink, answers.get("target", target),
                                 lambda _: self.sink.configuration((1,), (1,)))
        self.patches = Patches()

    def __enter__(self):
        self.hooks.install(self.patches, MODULE)
        return self

    def __exit__(self, *_):
        self.patches.undo()
        self.hooks.disable()

    def count(self):
        return len(self.sink.log.columns()["start_ns"])


@pytest.fixture(autouse=True)
def nothing_is_left():
    def state():
        return [(each, each.__code__, each.__defaults__, each.__kwdefaults__)
                for each in (Marshaller.__call__, Marshaller._launch)]

    before = state()
    yield
    assert state() == before


@pytest.mark.parametrize("detail", ["launch", "phases"])
def test_results_arguments_and_exceptions_are_the_launchs_own(detail):
    with Hooked(detail) as hooked:
        launch = Marshaller()
        assert launch(1, 2.0) == 2 and launch.launched == [(1, 2.0)]
        problem = LookupError("the user's")
        with pytest.raises(LookupError) as raised:
            launch(problem)
        assert raised.value is problem
        with pytest.raises(TypeError, match="unexpected keyword argument 'stream'"):
            launch(1, stream=2)
    assert hooked.count() == 2
    assert [error for _, error in hooked.asked] == [None, "LookupError"]


def test_a_launch_is_looked_at_once():
    with Hooked() as hooked:
        one, other = Marshaller(), Marshaller()
        for _ in range(10):
            one(1, 2.0)
            other(1, 2.0)
        one._types = list(one._types)  # as of a launch with host arrays: an equal list, of the same types
        one(1, 2.0)
        one._types = [float]
        one(2.0)
        one._launcher = object()  # numba-cuda-mlir has replaced it
        one(2.0)
    assert len(hooked.asked) == 4 and hooked.count() == 23


def test_an_error_of_ours_drops_the_launch_and_nothing_else():
    def broken(*_):
        raise RuntimeError("ours")

    with Hooked(target=broken) as hooked:
        assert Marshaller()(1) == 1
    assert hooked.sink.errors["numba-cuda-mlir"] == hooked.sink.dropped["numba-cuda-mlir"] == 1
    assert hooked.count() == 0


def test_a_launch_inside_a_launch_is_one_of_its_own():
    with Hooked() as hooked:
        outer, inner = Marshaller(), Marshaller()
        hooked.sink.state().launch_config = outer  # the thread is in the middle of a launch
        hooked.sink.state().kernel = outer._types
        inner(3)
        assert hooked.sink.state().launch_config is outer and hooked.sink.state().kernel is outer._types
        hooked.sink.state().launch_config = None
        outer(1)
    assert hooked.count() == 2


def fake_descriptor():
    """A module with the functions that the probe looks for."""
    module = ModuleType("numba_cuda_mlir.descriptor")

    class MLIRDispatcher:
        def _can_reuse_overload(self):
            pass

        def _resolve_overload(self):
            pass

    class _ArgMarshaller:
        def __init__(self):
            self._available_launch_config = self._launch_stream = self._stream_ref = None

        def __call__(self, *args):
            pass

        def _launch(self, argtypes, launch_args, launch_values=None):
            return self._launcher, self._launch_config, self._dispatcher

    for owner in (MLIRDispatcher, _ArgMarshaller):
        for each in vars(owner).values():
            if callable(each):
                each.__module__ = module.__name__
        setattr(module, owner.__name__, owner)
    module._launch_config_key = lambda config: config
    return module


def test_the_check_of_names():
    assert self_check(fake_descriptor()) == []
    without = fake_descriptor()
    del without._ArgMarshaller._launch
    assert self_check(without) == ["numba_cuda_mlir.descriptor has no function _ArgMarshaller._launch"]
    other = fake_descriptor()
    other._ArgMarshaller._launch = eval("lambda self, args: None")
    other._ArgMarshaller._launch.__module__ = other.__name__
    assert self_check(other) == [
        "_ArgMarshaller._launch takes (self, args), not (self, argtypes, launch_args, launch_values)"]
    native = fake_descriptor()
    native._ArgMarshaller.__call__ = max
    assert self_check(native) == ["numba_cuda_mlir.descriptor has no function _ArgMarshaller.__call__"]
    del native._launch_config_key
    assert self_check(native)[-1] == "numba_cuda_mlir.descriptor has no function _launch_config_key"


@pytest.mark.parametrize(("version", "said"), [
    ("0.4.9", "0.4.9 is too old"), ("0.6.0", "has another launch path"), ("1.0.0", "1.0.0 has another launch path")])
def test_what_cannot_be_hooked_is_said_so(monkeypatch, version, said):
    package, descriptor = ModuleType("numba_cuda_mlir"), fake_descriptor()
    package.__version__ = version
    del descriptor._ArgMarshaller._launch
    monkeypatch.setitem(sys.modules, "numba_cuda_mlir", package)
    monkeypatch.setitem(sys.modules, "numba_cuda_mlir.descriptor", descriptor)
    recorder = Recorder(probes=[NumbaCudaMlirProbe()]).start()
    recording = recorder.stop()
    (row,) = [row for row in recording.rows("health") if row["probe"] == "numba-cuda-mlir" and row["status"] != "ok"]
    assert row["status"] == "unavailable" and said in row["message"] and "pip install" in row["fix"]


def test_nothing_happens_where_it_is_never_imported():
    recording = Recorder(probes=[NumbaCudaMlirProbe()]).start().stop()
    assert "numba_cuda_mlir" not in sys.modules
    assert not [row for row in recording.rows("health") if row["status"] != "ok"]


def test_handles_of_streams():
    class Protocol:
        def __cuda_stream__(self):
            return 0, 17

    sink = Sink()
    rows = KernelRows(sink, SimpleNamespace())
    for stream, handle in ((None, 0), (5, 5), (Protocol(), 17), (SimpleNamespace(handle=SimpleNamespace(value=7)), 7),
                           (SimpleNamespace(handle="?"), None)):
        launch = SimpleNamespace(_available_launch_config={"grid": (1, 1, 1), "block": (1, 1, 1), "sharedmem": None},
                                 _launch_stream=stream, _stream_ref=None)
        assert sink.configurations.rows[rows.configuration(launch)]["stream"] == handle


def test_mlir_of_both_stages_is_one_text():
    both = mlir_text({"mlir_module_str": "module {\n}\n", "mlir_module_optimized": "module {}"})
    assert both.count("module {") == 2 and "\n// -----\n// MLIR after" in both and both.endswith("module {}\n")
    assert "// -----" not in mlir_text({"mlir_module_optimized": "module {}"})
    assert mlir_text({}) == ""
