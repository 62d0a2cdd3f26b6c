"""What a probe has that derives from `Probe`, and that one by the documented protocol alone is as good."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from kernelscope import Recorder
from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes import base
from kernelscope.probes.base import Patches, Probe
from kernelscope.probes.cost import Trial, other_work
from kernelscope.probes.cuda_compute import CudaComputeProbe
from kernelscope.probes.cuda_core import CudaCoreProbe
from kernelscope.probes.numba_cuda import NumbaCudaProbe
from kernelscope.probes.numba_cuda_mlir import NumbaCudaMlirProbe
from kernelscope.probes.nvtx import NvtxProbe
from kernelscope.probes.quadrants import QuadrantsProbe
from kernelscope.probes.sink import Sink


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A framework with one function that launches."""
    module: Any = ModuleType("toy")
    exec("def run(grid):\n    if not grid:\n        raise ValueError('no grid')\n    return grid", vars(module))
    monkeypatch.setitem(sys.modules, "toy", module)
    return module


class ToyProbe(Probe):
    name = "toy"
    fix = "pip install toy==1"

    def hook(self, module: Any, sink: Any) -> None:
        def record(start: int, end: int, error: str | None, grid: int) -> None:
            if grid == 13:
                raise RuntimeError("a defect of the probe")
            kernel = sink.dispatchers.intern("toy", lambda: {"framework": "toy", "name": "run", "module": "toy"})
            sink.launch(start, end, sink.target(kernel, error=error), sink.configuration((grid,), (32,)))

        self.hook_launches(sink, module, "run", record, skip=lambda grid: grid == 7)


def health(recorder: Recorder, status: str) -> list[tuple[str, Any]]:
    return [(row["message"], row["fix"]) for row in recorder.recording.rows("health")
            if row["probe"] == "toy" and row["status"] == status]


def test_launches_are_recorded_with_their_errors_and_results(toy: Any) -> None:
    original, code = toy.run, toy.run.__code__
    with Recorder(probes=[ToyProbe()]) as recorder:
        assert (toy.run(4), toy.run(7)) == (4, 7)
        with pytest.raises(ValueError, match="no grid"):
            toy.run(0)
        assert toy.run(13) == 13
    assert (toy.run, toy.run.__code__) == (original, code)
    assert [row["error"] for row in recorder.recording.rows("launches")] == [None, "ValueError"]
    ((message, _),) = health(recorder, "degraded")
    assert "a defect of the probe" in message


def test_a_hook_under_another_s_wrapper_records_nothing_afterwards(toy: Any) -> None:
    toy.run = max  # no Python function: it is replaced as an attribute
    probe = ToyProbe()
    with Recorder(probes=[probe]) as recorder:
        hook = toy.run
        toy.run = lambda *grid: hook(*grid)
    assert toy.run(3, 5) == 5
    assert not probe.is_installed and len(recorder.recording.launches) == 0


@pytest.mark.parametrize(("raised", "status", "said", "fix"), [
    (ProbeUnavailableError("toy 9 is unknown"), "unavailable", "toy 9 is unknown", "pip install toy==1"),
    (LookupError("it has no run2"), "degraded", "LookupError: it has no run2", "please report it with this message"),
])
def test_a_framework_that_cannot_be_hooked_is_left_as_it_is(toy: Any, raised: Exception, status: str, said: str,
                                                            fix: str) -> None:
    class Broken(ToyProbe):
        def hook(self, module: Any, sink: Any) -> None:
            super().hook(module, sink)
            raise raised

    code = toy.run.__code__
    with Recorder(probes=[Broken()]) as recorder:
        assert toy.run.__code__ is code
        toy.run(4)
    ((message, shown),) = health(recorder, status)
    assert said in message and shown == fix
    assert len(recorder.recording.launches) == 0


def test_the_cost_of_hooks_is_measured_where_a_trial_is_given(toy: Any) -> None:
    class Measured(ToyProbe):
        name = "measured toy"
        module = "toy"

        def trial(self, sink: Any, patches: Patches) -> Trial:
            module: Any = ModuleType("another toy")
            exec("def run(grid):\n    work()", vars(module) | {"work": other_work}, vars(module))
            patches.hook(module, "run", lambda original: lambda grid: sink.clock() and original(grid))
            return other_work, lambda: module.run(4)

    for probe, known in ((ToyProbe(), False), (Measured(), True)):
        assert probe.cost_per_launch_ns("phases") is None  # nothing is hooked
        with Recorder(probes=[probe]) as recorder:
            toy.run(4)
        assert (probe.name in recorder.recording.metadata["own_cost"]) is known


@pytest.mark.parametrize("detail", ["phases", "launch"])
@pytest.mark.parametrize("probe", [NumbaCudaProbe, NumbaCudaMlirProbe, CudaCoreProbe, CudaComputeProbe, QuadrantsProbe,
                                   NvtxProbe])
def test_the_hooked_launch_of_a_trial_is_recorded_and_the_other_is_not(probe: Any, detail: str) -> None:
    def written() -> int:
        return len(sink.log.columns()["start_ns"]) + len(sink.ranges) // 4

    sink, patches = Sink(detail=detail), Patches()
    trial = probe().trial(sink, patches)
    assert trial is not None
    plain, hooked = trial
    try:
        for launch, rows in ((plain, 0), (hooked, 2 if probe is NvtxProbe else 1)):
            before = written()
            launch()
            assert written() - before == rows
    finally:
        patches.undo()
    assert not sink.errors
    assert (probe().measure_cost(detail) or 0) > 0


def test_versions_are_compared_as_numbers() -> None:
    base.refuse_older("toy", "0.10.0.dev3", "0.9")
    base.refuse_older("toy", "", "0.9")  # not known
    with pytest.raises(ProbeUnavailableError, match=r"toy 0\.8\.1 is too old: 0\.9 or newer is needed"):
        base.refuse_older("toy", "0.8.1", "0.9")
    assert base.numbers_of("0.6.1.dev3") == (0, 6, 1) and base.numbers_of("unknown") == ()
