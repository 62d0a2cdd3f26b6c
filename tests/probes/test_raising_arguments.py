"""Objects whose every special method raises, passed where a user passes something: it is as without a recording."""

from __future__ import annotations

import signal
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import nvtx
import pytest
from launched_kernels import make_kernels
from numba import cuda
from nvtx_ranges import shown
from raising import RAISING, Anything, Number, Text, Trouble, outcome, same_outcome

import kernelscope
from kernelscope.frameworks.cupy.hooks import CupyHooks
from kernelscope.frameworks.cute.hooks import CuteHooks
from kernelscope.frameworks.cutile.hooks import Hooks as CutileHooks
from kernelscope.probes.base import Patches, Probe
from kernelscope.probes.sink import Sink
from kernelscope.probes.torch.compile import CompileHooks as TorchHooks
from kernelscope.probes.triton.kernels import KernelRows
from kernelscope.probes.triton.launch import LaunchHooks as TritonHooks
from kernelscope.recorder.recorder import Recorder


@pytest.fixture(params=RAISING)
def raising(request: pytest.FixtureRequest) -> Any:
    """A function that makes an object."""
    return RAISING[request.param]


def same(action: Callable[[], Any], **options: Any) -> Any:
    """Assert that an action comes to the same in a recording, which goes on; return it."""
    recording = same_outcome(action, **options)
    assert recording.dispatchers.name.tolist()[-1].endswith("noop")
    return recording


# numba-cuda.

CONFIGURATIONS: dict[str, Callable[[Any], Any]] = {
    "grid": lambda thing: (thing, 1), "block": lambda thing: (1, thing), "a dimension": lambda thing: ((1, thing), 1),
    "stream": lambda thing: (1, 1, thing), "sharedmem": lambda thing: (1, 1, 0, thing),
    "cluster": lambda thing: (1, 1, 0, 0, thing), "configuration": lambda thing: thing,
}


@pytest.fixture(scope="module")
def kernels() -> Any:
    """Kernels that are compiled."""
    kernels = make_kernels()
    kernels.noop[1, 1]()
    return kernels


@pytest.mark.parametrize("what", CONFIGURATIONS)
@pytest.mark.parametrize("detail", ["phases", "launch"])
def test_numba_cuda_configurations(raising: Any, what: str, detail: str, kernels: Any) -> None:
    same(lambda: kernels.noop[CONFIGURATIONS[what](raising())](), detail=detail)


def test_numba_cuda_arguments(raising: Any, kernels: Any) -> None:
    array = cuda.to_device(np.zeros(4, np.float32))
    kernels.axpy[1, 1](array, 1, array)
    same(lambda: kernels.axpy[1, 1](array, raising(), array))
    same(lambda: kernels.axpy[1, 1](raising(), 1.0))


def test_numba_cuda_callbacks(raising: Any) -> None:
    """Such an object stands among the callbacks of a launch configuration, or is what one raises."""
    def launch() -> None:
        configured = make_kernels().noop[1, 1]
        configured.pre_launch_callbacks.append(raising())
        configured()

    def fail(*_: Any) -> None:
        raise Trouble

    def launch_that_fails() -> None:
        configured = make_kernels().noop[1, 1]
        configured.pre_launch_callbacks.append(fail)
        configured()

    same(launch)
    assert "Trouble" in same(launch_that_fails).launches.error.tolist()


def test_numba_cuda_options_and_attributes(raising: Any) -> None:
    def define(**options: Any) -> None:
        @cuda.jit(**options)
        def kernel() -> None:
            pass

        kernel[1, 1]()

    same(lambda: define(debug=raising()))
    same(lambda: define(max_registers=raising()))

    def named() -> None:
        def kernel() -> None:
            pass

        kernel.thing = raising()  # type: ignore[attr-defined]
        kernel.__module__ = raising()
        cuda.jit(kernel)[1, 1]()

    same(named)


def test_numba_cuda_captured_values(raising: Any) -> None:
    def launch() -> None:
        thing = raising()

        @cuda.jit
        def kernel(x: Any) -> None:
            x[0] = thing

        kernel[1, 1](cuda.device_array(1))

    same(launch)


def test_an_attached_kernel(raising: Any) -> None:
    kernel = make_kernels().noop

    def launch() -> None:
        configured = kernel[1, 1]
        configured.pre_launch_callbacks.insert(0, thing)

    thing = raising()
    before = outcome(launch)
    with kernelscope.record() as recorder:
        recorder.attach(kernel)
        assert outcome(launch) == before


# The simulator.

SIMULATED = """
import kernelscope
from numba import cuda
from raising import RAISING, Trouble, outcome

def launch(configuration, argument=1):
    @cuda.jit
    def touch(x):
        pass

    touch[configuration](argument)

for name, make in RAISING.items():
    for action in (lambda: launch((make(), 1)), lambda: launch((1, make())), lambda: launch((1, 1, make())),
                   lambda: launch((1, 1, 0, make())), lambda: launch(make()), lambda: launch((1, 1), make())):
        before = outcome(action)
        with kernelscope.record() as recorder:
            found = outcome(action)
            launch((2, 3))
        assert found == before, (name, found, before)
        assert recorder.recording.configurations.blockdim_x.tolist()[-1] == 3

class Stream:
    @property
    def handle(self):
        raise Trouble

with kernelscope.record() as recorder:
    launch((1, 1, Stream()))
assert len(recorder.recording.launches) == 1
assert recorder.recording.configurations.stream.tolist() == [0]
print("ok")
"""


@pytest.mark.slow
def test_the_simulator(run_python: Any) -> None:
    from pathlib import Path

    helpers = str(Path(__file__).parents[1] / "helpers")
    result = run_python(f"import sys; sys.path.insert(0, {helpers!r})\n" + SIMULATED,
                        NUMBA_ENABLE_CUDASIM="1", KERNELSCOPE_DRYRUN="0")
    assert result.stdout.strip() == "ok"


class Timed(Probe):
    """A probe that times a method, and asks of each call whether it is a launch."""

    name = "timed"

    def __init__(self, owner: Any) -> None:
        super().__init__()
        self.owner = owner
        self.seen: list[Any] = []

    def install(self, sink: Sink, detail: str) -> None:
        self.sink = sink
        self.is_installed = True
        self.hook_launches(sink, self.owner, "run", lambda *given: self.seen.append(given),
                           skip=lambda _, argument: bool(argument))

    def uninstall(self) -> None:
        self.is_installed = False
        self.patches.undo()


def test_the_base_class(raising: Any) -> None:
    class Owner:
        def run(self, argument: Any) -> Any:
            return argument + 1

    probe = Timed(Owner)
    def call() -> Any:
        return Owner().run(raising())

    before = outcome(call)
    with Recorder(probes=[probe]) as recorder:
        assert outcome(call) == before
        assert Owner().run(0) == 1
    assert len(probe.seen) == 1
    assert recorder.recording.rows("health")[0]["probe"] == "timed"


def test_what_a_signal_handler_raises_while_a_call_is_looked_at_is_the_users() -> None:
    class Owner:
        def run(self, argument: Any) -> None:
            pass

    class Timeout(Exception):
        pass

    class Interrupting:
        def __bool__(self) -> bool:
            signal.raise_signal(signal.SIGUSR1)
            return False

    def raise_timeout(*_: Any) -> None:
        raise Timeout

    before = signal.signal(signal.SIGUSR1, raise_timeout)
    try:
        with Recorder(probes=[Timed(Owner)]), pytest.raises(Timeout):
            Owner().run(Interrupting())
    finally:
        signal.signal(signal.SIGUSR1, before)


# nvtx.

LABELS = ("message", "color", "domain", "category", "payload")


def annotated(**given: Any) -> None:
    with nvtx.annotate(**given):
        pass


def pushed(**given: Any) -> None:
    nvtx.push_range(**given)
    nvtx.pop_range(given.get("domain"))


def started(**given: Any) -> None:
    nvtx.end_range(nvtx.start_range(**given))


def decorated(**given: Any) -> None:
    @nvtx.annotate(**given)
    def work() -> None:
        pass

    work()


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("action", [annotated, pushed, started, decorated, nvtx.mark])
def test_nvtx_labels(raising: Any, label: str, action: Callable[..., Any]) -> None:
    def act() -> None:
        action(**{label: raising()})

    recording = same(act)
    if outcome(act)[0] is type(None):  # nvtx took it, and so the range is there twice, and begins and ends
        rows = recording.rows("ranges")
        assert len(rows) == 2
        assert [row["depth"] for row in rows] in ([0, 0], [None, None])
        assert all(row["end_ns"] is not None for row in rows)


@pytest.mark.parametrize("label", ["message", "color", "category", "payload"])
def test_nvtx_domains(raising: Any, label: str) -> None:
    def act() -> None:
        domain = nvtx.get_domain("a domain")
        attributes = domain.get_event_attributes(**{label: raising()})
        domain.push_range(attributes)
        domain.set_event_attributes(attributes, **{label: raising()})
        domain.pop_range()
        domain.end_range(domain.start_range(attributes))
        domain.mark(attributes)

    same(act)


@pytest.mark.parametrize("call", [nvtx.end_range, nvtx.pop_range, nvtx.get_domain, nvtx.annotate()])
def test_other_calls_of_nvtx(raising: Any, call: Callable[[Any], Any]) -> None:
    same(lambda: call(raising()))


def test_ranges_of_objects_that_raise_have_a_name() -> None:
    with kernelscope.record() as recorder:
        annotated(message=Anything(), payload=Number(1), color=Text("red"))
        annotated(message="plain")
    assert shown(recorder.recording, "name", "depth") == [("Anything", 0), ("plain", 0)]


# The hooks of others, around functions of the same arguments as theirs.

def around(make: Callable[[Any], Any], original: Callable[..., Any], *given: Any, **named: Any) -> None:
    """Assert that a hook on a function comes to the same as the function."""
    hook = make(original)
    assert type(hook) is types.FunctionType
    for function in (lambda *args, **kwargs: args and bool(args[0]), original):
        hook = make(function)
        try:
            expected = type(function(*given, **named))
        except BaseException as error:
            with pytest.raises(type(error)):
                hook(*given, **named)
        else:
            assert type(hook(*given, **named)) is expected


def accept(*given: Any, **named: Any) -> None:
    """Take anything."""


def test_cutile(raising: Any) -> None:
    hooks = CutileHooks(Sink(), Patches())
    around(hooks.make_launch, accept, raising(), raising(), raising(), raising())
    around(hooks.make_launch, accept, 0, (1,), raising(), (raising(),))


def test_cupy(raising: Any) -> None:
    compiler = types.SimpleNamespace(_get_arch=lambda: "90")
    hooks = CupyHooks(Sink(), compiler)

    def compile_(source: Any, options: Any, arch: Any, *args: Any, **kwargs: Any) -> Any:
        hooks.make_phase(accept, "nvrtc")(source)
        return hooks.make_load(accept)(raising(), raising())

    around(hooks.make_compile, compile_, raising(), raising(), raising(), name_expressions=raising())


def test_cute(raising: Any) -> None:
    hooks = CuteHooks(Sink())

    def generate_mlir(dsl: Any, *args: Any, **kwargs: Any) -> Any:
        return hooks.make_backend(lambda backend, ctx: hooks.make_resolve(accept)(backend, ctx))(raising(), raising())

    around(hooks.make_compile, generate_mlir, raising(), raising())


def test_torch(raising: Any) -> None:
    hooks = TorchHooks(Sink())
    hooks._utils = types.SimpleNamespace(counters={}, graph_break_reasons=[])
    code = accept.__code__

    def compile_(code: Any, globals: Any, locals: Any, **kwargs: Any) -> Any:
        hooks._make_reasons(lambda *_: [raising()])()
        return raising()

    around(hooks._make_compile, compile_, code, {"__name__": raising()}, {"given": raising(), "named": raising()},
           compile_id=raising())
    around(hooks.make_post_compile, lambda *_: None, raising(), raising(), raising(), raising())


def test_triton(raising: Any) -> None:
    sink = Sink()
    hooks = TritonHooks(sink, KernelRows(sink))
    assert hooks.begin_alone(raising(), raising(), raising(), raising(), raising()) is None
    assert hooks.end(raising(), raising(), (raising(),) * 5, "ValueError") is None
    assert sink.errors


def test_a_stream_that_cannot_be_read_when_recording_stops() -> None:
    class Stream:
        @property
        def handle(self) -> int:
            raise Trouble

    sink, stream = Sink(), Stream()
    sink.stream_seen(8, stream)
    assert sink.streams() == []


def test_an_error_that_cannot_be_printed_is_counted() -> None:
    sink = Sink()
    sink.swallow("probe", Trouble())
    assert sink.errors["probe"] == 1 and "Trouble" in sink.first_errors["probe"]


def test_a_block_that_ends_with_an_error_that_cannot_be_printed() -> None:
    with pytest.raises(Trouble), kernelscope.record() as recorder:
        raise Trouble
    (cell,) = recorder.recording.rows("cells")
    assert cell["status"] == "error" and cell["error"].startswith("Trouble: ")
