"""Recordings of a Dask cluster: what every worker did, and what a worker that comes, goes or dies leaves."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from dask_tasks import Counter, die, launch
from distributed import Client, LocalCluster

import kernelscope
import kernelscope.dask

WORKERS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("scratch")
    environment = {"KERNELSCOPE_DRYRUN": "1", "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
                   "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    with (dask.config.set({"distributed.scheduler.allowed-failures": 0}),
          LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0", local_directory=str(folder),
                       env=environment, silence_logs=50) as made):
        yield made


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as made:
        yield made
        assert not made.run_on_scheduler(_plugins), "a plugin was left on the scheduler"


@pytest.fixture
def left(cluster: LocalCluster) -> Callable[[], list[Path]]:
    """What recordings have left on the workers' host."""
    (worker,) = {Path(each["local_directory"]).parent for each in cluster.scheduler_info["workers"].values()}
    return lambda: sorted(worker.glob("kernelscope-*"))


def _plugins(dask_scheduler: Any) -> list[str]:
    return [name for held in (dask_scheduler.plugins, dask_scheduler.worker_plugins) for name in held
            if name == "kernelscope"]


def _until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def _on_each(client: Client, function: Any, *args: Any) -> dict[str, Any]:
    """Run a task on each worker; what they return by address."""
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    futures = [client.submit(function, *args, workers=[address], pure=False) for address in workers]
    return dict(zip(workers, client.gather(futures), strict=True))


def _messages(recording: kernelscope.Recording) -> list[str]:
    return [row["message"] for row in recording.rows("health") if row["probe"] == "dask"]


def _launches(recording: kernelscope.Recording) -> dict[int, int]:
    """How many launches there are, by pid."""
    processes = recording.by_process()
    return dict(zip(processes.pid.tolist(), processes.launches.tolist(), strict=True))


def test_every_worker_is_a_process_of_the_recording_and_launches_know_their_task(
        client: Client, left: Callable[[], list[Path]]) -> None:
    with kernelscope.dask.record(client, "step") as recorder:
        pids = _on_each(client, launch, 3)
        actor = client.submit(Counter, actor=True).result()
        by_actor = actor.launch(5).result()
    recording = recorder.recording
    assert recording.name == "step" and not _messages(recording)
    expected = dict.fromkeys(pids.values(), 3)
    expected[by_actor] += 5
    assert _launches(recording) == expected
    assert sorted(recording.processes.worker) == [str(number) for number in range(WORKERS)]
    assert set(recording.processes.status) == {"ok"}
    tasks = recording.by_task()
    step = tasks[tasks.task == "launch"]
    assert (len(step), step.tasks.sum(), step.launches.sum(), step.unfinished.sum()) == (WORKERS, WORKERS, 9, 0)
    assert tasks[tasks.task != "launch"].launches.sum() == 5
    assert all(key.startswith("launch-") for key in recording.ranges.payload[recording.ranges.name == "launch"])
    assert left() == []


@pytest.mark.slow
def test_a_worker_that_joins_is_recorded_and_one_that_goes_leaves_its_file(
        cluster: LocalCluster, client: Client, left: Callable[[], list[Path]]) -> None:
    with kernelscope.dask.record(client) as recorder:
        cluster.scale(WORKERS + 1)
        client.wait_for_workers(WORKERS + 1, timeout=60)
        pids = _on_each(client, launch, 2)
        (new,) = [each["id"] for each in client.scheduler_info(n_workers=-1)["workers"].values()
                  if str(each["id"]) == str(WORKERS)]
        address = next(address for address, each in client.scheduler_info(n_workers=-1)["workers"].items()
                       if each["id"] == new)
        client.retire_workers([address], close_workers=True)
        _until(lambda: address not in client.scheduler_info(n_workers=-1)["workers"])
    cluster.scale(WORKERS)
    assert _launches(recorder.recording) == dict.fromkeys(pids.values(), 2)
    assert not _messages(recorder.recording)
    assert left() == []


def test_one_recording_at_a_time_and_a_closed_client_ends_its_own(cluster: LocalCluster, client: Client) -> None:
    with Client(cluster) as other:
        recorder = kernelscope.dask.record(other, "first").start()
        with pytest.raises(kernelscope.RecorderStateError, match="recorded already as 'first' by another client"):
            kernelscope.dask.record(client, "second").start()
        pids = _on_each(other, launch, 2)
    _until(lambda: not client.run_on_scheduler(_plugins))
    with kernelscope.dask.record(client) as second:
        _on_each(client, launch, 1)
    recording = recorder.stop()
    assert _launches(recording) == dict.fromkeys(pids.values(), 2)
    assert ["the client was closed before" in message for message in _messages(recording)] == [True]
    assert set(_launches(second.recording).values()) == {1}


def test_ctrl_c_while_files_are_fetched_keeps_what_is_there(
        client: Client, left: Callable[[], list[Path]], monkeypatch: pytest.MonkeyPatch) -> None:
    run, fetched = client.run, []

    def interrupted(function: Any, **given: Any) -> Any:
        if function.__name__ == "fetch":
            fetched.append(function)
            if len(fetched) > 1:
                raise KeyboardInterrupt
        return run(function, **given)

    monkeypatch.setattr(client, "run", interrupted)
    monkeypatch.setattr("kernelscope.dask.cluster._AT_ONCE", 1)
    recorder = kernelscope.dask.record(client).start()
    pids = _on_each(client, launch, 2)
    with pytest.raises(KeyboardInterrupt):
        recorder.stop()
    (kept,) = _launches(recorder.recording).items()
    assert kept in dict.fromkeys(pids.values(), 2).items()
    (message,) = _messages(recorder.recording)
    (folder,) = left()
    assert message.startswith("interrupted: 2 recordings of workers were not fetched") and str(folder) in message
    rest = kernelscope.processes.collect(folder)
    shutil.rmtree(folder)
    assert sorted([kept[0], *_launches(rest)]) == sorted(pids.values())


def test_workers_without_kernelscope_or_of_another_version_are_named_and_others_go_on(client: Client) -> None:
    first, second, *_ = client.scheduler_info(n_workers=-1)["workers"]

    def forget() -> None:
        import sys

        sys.modules["kernelscope.dask.worker"] = None  # type: ignore[assignment]

    def remember() -> None:
        import sys

        import kernelscope

        sys.modules.pop("kernelscope.dask.worker", None)
        kernelscope.__version__ = kernelscope.__version__.removesuffix(".dev9")

    def age() -> None:
        import kernelscope

        kernelscope.__version__ += ".dev9"

    client.run(forget, workers=[first])
    client.run(age, workers=[second])
    try:
        with kernelscope.dask.record(client) as recorder:
            pids = _on_each(client, launch, 2)
    finally:
        client.run(remember)
    without, version = _messages(recorder.recording)
    assert "was not recorded: kernelscope cannot be imported there" in without
    assert f"kernelscope {kernelscope.__version__}.dev9, and this client has {kernelscope.__version__}" in version
    del pids[first]
    assert _launches(recorder.recording) == dict.fromkeys(pids.values(), 2)


def test_what_a_worker_hands_over_is_read_as_any_file(client: Client, left: Callable[[], list[Path]]) -> None:
    with kernelscope.dask.record(client) as recorder:
        pids = _on_each(client, launch, 1)
        (folder,) = left()
        (folder / "0-harmful.kscope").write_bytes(b"PK nothing")
    assert len(_launches(recorder.recording)) == len(pids)
    assert [row["message"] for row in recorder.recording.rows("health")
            if "was left out" in row["message"] and "harmful" in row["message"]]


@pytest.mark.slow
def test_a_report_is_a_page(client: Client, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), kernelscope.dask.report(client, tmp_path / "report.html"):
        _on_each(client, launch, 1)
        _ = 1 / 0
    assert "axpy" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(("given", "message"), [
    ({"journal": True}, "each worker keeps a journal"), ({"detail": "all"}, "detail 'all' is not one of")])
def test_options_that_are_not_for_a_cluster_are_refused(client: Client, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernelscope.dask.record(client, **given)


@pytest.mark.slow
def test_workers_that_are_threads_of_one_process_are_one_process(tmp_path: Path) -> None:
    with (Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0",
                 local_directory=str(tmp_path)) as client, kernelscope.dask.record(client) as recorder):
        _on_each(client, launch, 2)
    recording = recorder.recording
    assert _launches(recording) == {os.getpid(): 4}
    assert ["are threads of one process" in message for message in _messages(recording)] == [True]
    assert recording.by_task().launches.tolist() == [4]


def test_a_killed_worker_loses_nothing_that_was_completed(client: Client, left: Callable[[], list[Path]]) -> None:
    with kernelscope.dask.record(client) as recorder:
        pids = _on_each(client, launch, 2)
        address, pid = next(iter(pids.items()))
        future = client.submit(die, 7, workers=[address], allow_other_workers=False)
        assert future.exception() is not None
    recording = recorder.recording
    launches = _launches(recording)
    assert launches[pid] == 2 + 7
    assert {pid: launches[pid] for pid in pids.values()} == {**dict.fromkeys(pids.values(), 2), pid: 9}
    status = dict(zip(recording.processes.pid, recording.processes.status, strict=True))
    assert [each for each in pids.values() if status[each] == "killed"] == [pid]
    tasks = recording.by_task()
    (died,) = tasks[tasks.task == "die"].itertuples()
    assert (died.tasks, died.unfinished, died.launches) == (1, 1, 7)
    assert left() == []
