"""Which of the process's libraries is CUPTI, and when it is loaded."""

from __future__ import annotations

import mmap
import sys
from types import ModuleType

import pytest
from cupti_stand_in import health

from kernelscope.probes.cupti import CuptiProbe, library
from kernelscope.recorder.recorder import Recorder


class TestImports:
    @pytest.fixture
    def lazy(self, cupti, monkeypatch, tmp_path):
        """A probe that finds the stand-in, where nothing has started CUDA yet; fake modules can be imported."""
        from kernelscope.probes import cupti as probe

        for name in ("torch", "cupy", "cuda.bindings.driver", "torch.autograd", "torch.autograd.profiler"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / "cupy.py").write_text("answer = 42\n")
        autograd = tmp_path / "torch" / "autograd"
        autograd.mkdir(parents=True)
        (tmp_path / "torch" / "__init__.py").write_text("")
        (autograd / "__init__.py").write_text("")
        (autograd / "profiler.py").write_text("")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(probe, "_loaded", lambda: cupti)
        yield CuptiProbe()
        for name in ("torch", "cupy", "torch.autograd", "torch.autograd.profiler"):
            sys.modules.pop(name, None)

    def test_recording_begins_with_the_import_that_can_start_cuda(self, lazy, stand_in):
        with Recorder(probes=[lazy]) as recorder:
            assert stand_in.left_on == []
            import cupy

            assert cupy.answer == 42
            assert stand_in.client == "KernelScope"
            import torch

            assert torch
            stand_in.launch("kernel")
        assert recorder.recording.activities.name.tolist() == ["kernel"]
        assert stand_in.library.stand_in_registrations() == 1

    def test_without_such_an_import_nothing_is_loaded(self, lazy, stand_in):
        with Recorder(probes=[lazy]) as recorder:
            pass
        assert stand_in.library.stand_in_registrations() == 0
        assert health(recorder.recording) == []

    def test_a_refusal_at_the_import_is_in_health(self, lazy, stand_in):
        stand_in.library.stand_in_hold(b"nsys")
        with Recorder(probes=[lazy]) as recorder:
            import cupy

            assert cupy
        assert "nsys" in health(recorder.recording)[0]["message"]

    def test_another_torch_is_left_alone(self, lazy, stand_in):
        fake = ModuleType("torch.autograd.profiler")
        sys.modules["torch.autograd.profiler"] = fake
        with Recorder(probes=[lazy]) as recorder:
            import cupy

            assert cupy
            stand_in.launch("kernel")
        assert len(recorder.recording.activities) == 1
        assert vars(fake).keys() == vars(ModuleType("other")).keys()


def test_the_library_that_is_loaded_is_found(tmp_path, monkeypatch):
    copy = tmp_path / "with space" / "libcupti.so.13"
    copy.parent.mkdir()
    copy.write_bytes(b"no library, but mapped like one")
    with open(copy, "rb") as file:
        held = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        assert library.find() == str(copy)
        held.close()


@pytest.mark.parametrize(("maps", "environment", "tool"), [
    ([], {}, None),
    (["7f0 r-xp 0 08:01 1 /usr/lib/libcuda.so.1", "7f1 /home/nsight/libcupti.so"], {}, None),
    (["7f0 r-xp 0 08:01 1 /usr/local/cuda/nsight-compute-2025.3.0/target/x/libTreeLauncherTargetInjection.so"], {},
     "Nsight Compute"),
    (["7f0 r-xp 0 08:01 1 /opt/nvidia/nsight-systems/2025.3.2/target-linux-x64/libToolsInjection64.so"], {},
     "Nsight Systems"),
    ([], {"NSYS_PROFILING_SESSION_ID": "1234"}, "Nsight Systems"),
])
def test_nsight_is_told_by_its_libraries(maps, environment, tool):
    assert library.nsight(maps, environment) == tool


def test_nsight_is_named_on_the_card(stand_in, cupti, monkeypatch):
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    with Recorder(probes=[CuptiProbe(cupti)]) as recorder:
        stand_in.launch("kernel")
    assert recorder.recording.activities.name.tolist() == ["kernel"]
    said, _ = health(recorder.recording)
    assert said["status"] == "degraded" and said["message"].startswith("Nsight Systems has started this process")
    stand_in.library.stand_in_hold(b"<not provided>")
    with Recorder(probes=[CuptiProbe(cupti)]) as recorder:
        pass
    (row,) = health(recorder.recording)
    assert row["status"] == "unavailable" and row["message"].endswith("records: Nsight Systems")
