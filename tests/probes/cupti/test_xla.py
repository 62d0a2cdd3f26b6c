"""JAX's profiler beside recordings: CUPTI is its own while it runs, and ours again afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from cupti_stand_in import health

PROFILER = '''
from types import SimpleNamespace

_profile_state = SimpleNamespace(profile_session=None)


def start_trace(log_dir):
    if _profile_state.profile_session is not None:
        raise RuntimeError("Profile has already been started.")
    _profile_state.profile_session = subscribe()


def stop_trace():
    if _profile_state.profile_session is None:
        raise RuntimeError("No profile started")
    _profile_state.profile_session = None
    unsubscribe()


def stop_and_get_fdo_profile():
    stop_trace()
'''


@pytest.fixture
def profiler(stand_in: Any) -> Iterator[Any]:
    """A stand-in of JAX's profiler, which notes what of CUPTI's was on as it started."""
    module = ModuleType("jax._src.profiler")

    def subscribe() -> str:
        module.found.append(stand_in.left_on)
        stand_in.library.stand_in_hold(b"XLA")
        return "session"

    vars(module).update(found=[], subscribe=subscribe, unsubscribe=lambda: stand_in.library.stand_in_hold(b""))
    exec(compile(PROFILER, "profiler.py", "exec"), vars(module))
    for name in ("jax", "jax._src"):
        sys.modules[name] = ModuleType(name)
    sys.modules["jax._src.profiler"] = module
    yield module
    for name in ("jax", "jax._src", "jax._src.profiler"):
        del sys.modules[name]


def names(recording: Any) -> list[str]:
    return recording.activities.name.tolist()


@pytest.mark.parametrize("stop", ["stop_trace", "stop_and_get_fdo_profile"])
def test_it_has_cupti_while_it_runs(profiler: Any, stand_in: Any, record: Any, stop: str) -> None:
    functions = {name: vars(profiler)[name].__code__ for name in ("start_trace", "stop_trace")}
    with record() as recorder:
        stand_in.launch("before")
        for _ in range(2):
            profiler.start_trace("folder")
            getattr(profiler, stop)()
            stand_in.launch("after")
    assert profiler.found == [[], []]
    assert names(recorder.recording) == ["before", "after", "after"]
    (said, _) = health(recorder.recording)
    assert said["status"] == "degraded" and "JAX's profiler ran for" in said["message"]
    assert "before or after" in said["fix"]
    assert {name: vars(profiler)[name].__code__ for name in functions} == functions


def test_a_recording_inside_it_leaves_it_alone_and_begins_when_it_stops(profiler: Any, stand_in: Any,
                                                                       record: Any) -> None:
    profiler.start_trace("folder")
    with record() as recorder:
        assert stand_in.left_on == []
        profiler.stop_trace()
        stand_in.launch("after")
    assert names(recorder.recording) == ["after"]


def test_it_still_runs_when_the_recording_ends(profiler: Any, stand_in: Any, record: Any) -> None:
    with record() as recorder:
        stand_in.launch("before")
        profiler.start_trace("folder")
    profiler.stop_trace()
    assert names(recorder.recording) == ["before"]
    assert any("JAX's profiler ran for" in row["message"] for row in health(recorder.recording))


def test_a_refusal_of_its_own_changes_nothing(profiler: Any, stand_in: Any, record: Any) -> None:
    with record() as recorder:
        with pytest.raises(RuntimeError, match="No profile started") as refused:
            profiler.stop_trace()
        profiler.start_trace("folder")
        with pytest.raises(RuntimeError, match="already been started"):
            profiler.start_trace("folder")
        assert stand_in.left_on == []  # still its own
        profiler.stop_trace()
        stand_in.launch("after")
    assert all("kernelscope/probes" not in str(each.path) for each in refused.traceback)
    assert names(recorder.recording) == ["after"]


def test_who_keeps_cupti_is_named(profiler: Any, stand_in: Any, record: Any) -> None:
    profiler.unsubscribe = lambda: None
    with record() as recorder:
        profiler.start_trace("folder")
        profiler.stop_trace()
    assert any("after JAX's profiler: another CUPTI client holds the GPU's records: XLA" in row["message"]
               for row in health(recorder.recording))


def test_another_jax_is_left_alone(profiler: Any, record: Any) -> None:
    profiler._profile_state = SimpleNamespace()
    del profiler.stop_and_get_fdo_profile
    with record():
        assert profiler.start_trace.__code__.co_filename != "profiler.py"
