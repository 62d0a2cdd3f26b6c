"""Recordings of a Dask cluster: what every worker did, and what a worker that comes, goes or dies leaves."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from dask_tasks import Launcher, die, launch
from distributed import Client, LocalCluster

import kernelscope
import kernelscope.dask
from kernelscope.dask import worker as recorded_worker

WORKERS, THREADS = 3, 2
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "dask.md"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("scratch")
    environment = {"KERNELSCOPE_DRYRUN": "1", "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
                   "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    with (dask.config.set({"distributed.scheduler.allowed-failures": 0}),
          LocalCluster(n_workers=WORKERS, threads_per_worker=THREADS, dashboard_address=":0",
                       local_directory=str(folder), env=environment, silence_logs=50) as made):
        yield made


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with Client(cluster) as made:
        yield made
        assert not plugins(made), "a plugin was left"


@pytest.fixture
def left(cluster: LocalCluster) -> Callable[[], list[Path]]:
    """What recordings have left on the workers' host."""
    (worker,) = {Path(each["local_directory"]).parent for each in cluster.scheduler_info["workers"].values()}
    return lambda: sorted(worker.glob("kernelscope-*"))


def plugins(client: Client) -> list[str]:
    """What is left of ours on the scheduler and on workers."""
    def on_scheduler(dask_scheduler: Any) -> list[str]:
        return [name for held in (dask_scheduler.plugins, dask_scheduler.worker_plugins, dask_scheduler.handlers)
                for name in held if "kernelscope" in name]

    def on_worker(dask_worker: Any) -> list[str]:
        return [name for name in dask_worker.plugins if "kernelscope" in name]

    return [*client.run_on_scheduler(on_scheduler), *(name for found in client.run(on_worker).values()
                                                      for name in found)]


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def addresses(client: Client) -> dict[str, str]:
    """The workers' addresses by name."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return {str(each["id"]): address for address, each in workers.items()}


def on_each(client: Client, function: Any, *args: Any) -> dict[str, Any]:
    """Run a task on each worker; what they return by the worker's name."""
    workers = addresses(client)
    futures = [client.submit(function, *args, workers=[address], pure=False) for address in workers.values()]
    return dict(zip(workers, client.gather(futures), strict=True))


def messages(recording: kernelscope.Recording) -> list[str]:
    return [row["message"] for row in recording.rows("health") if row["probe"] == "dask"]


def launches(recording: kernelscope.Recording) -> dict[int, int]:
    """How many launches there are, by pid."""
    processes = recording.by_process()
    return dict(zip(processes.pid.tolist(), processes.launches.tolist(), strict=True))


def test_every_worker_is_a_process_and_launches_know_their_task_also_of_several_threads(
        client: Client, left: Callable[[], list[Path]]) -> None:
    with kernelscope.dask.record(client, "step") as recorder:
        workers = addresses(client)
        futures = [client.submit(launch, 3, 0.2, workers=[address], pure=False)
                   for address in workers.values() for _ in range(THREADS)]  # at once, each on a thread of its own
        pids = client.gather(futures)
        actor = client.submit(Launcher, actor=True).result()
        by_actor = actor.launch(5).result()
    recording = recorder.recording
    assert (recording.name, messages(recording)) == ("step", [])
    expected = Counter(pids)
    assert launches(recording) == {pid: 3 * THREADS + 5 * (pid == by_actor) for pid in expected}
    assert recording.processes.worker.tolist() == [str(number) for number in range(WORKERS)]
    assert set(recording.processes.status) == {"ok"} and set(recording.processes.launcher) == {"dask"}
    tasks = recording.by_task()
    step = tasks[tasks.task == "launch"]
    assert sorted(step.worker) == sorted(workers)
    assert (step.tasks.tolist(), step.launches.tolist(), step.unfinished.sum()) == (
        [THREADS] * WORKERS, [3 * THREADS] * WORKERS, 0)
    assert tasks[tasks.task != "launch"].launches.sum() == 5
    threads = recording.launches.groupby(recording.launches.thread_id.map(recording.threads.process_id)).thread_id
    assert (threads.nunique() >= THREADS).all()
    assert {key for key in recording.ranges.payload if key.startswith("launch-")} == {each.key for each in futures}
    assert left() == []


def test_a_cell_of_a_notebook_records_its_own_process_and_the_workers(client: Client, cluster: LocalCluster) -> None:
    """In a process of its own: a real shell."""
    code = """
    import sys
    from IPython.terminal.interactiveshell import TerminalInteractiveShell
    shell = TerminalInteractiveShell.instance()
    def run(cell):
        shell.run_cell(cell).raise_error()
    run("%load_ext kernelscope")
    run("from distributed import Client; import dask_tasks, sys; client = Client(sys.argv[1])")
    run("%%kernelscope --dask client -n step\\ndask_tasks.launch(2)\\nclient.submit(dask_tasks.launch, 4).result()")
    run("%%kernelscope --dask nobody\\nprint('went on')")
    run("found = _kernelscope.by_process(); print('by process', sorted(found.launches.tolist()))")
    run("client.close()")
    """
    here = Path(__file__).resolve()
    given = {**os.environ, "KERNELSCOPE_DRYRUN": "1", "COLUMNS": "100",
             "PYTHONPATH": os.pathsep.join([
                 str(here.parents[1] / "helpers"), str(here.parents[2]), os.environ.get("PYTHONPATH", "")]).rstrip(":")}
    done = subprocess.run([sys.executable, "-c", re.sub("^    ", "", code, flags=re.M), cluster.scheduler_address],
                          capture_output=True, text=True, timeout=600, env=given)
    assert done.returncode == 0, done.stderr
    assert f"by process {[0] * (WORKERS - 1) + [2, 4]}" in done.stdout
    named = ["client", *(f"worker {number}" for number in range(WORKERS))]
    assert [name for name in named if not re.search(rf"^ *{name} .* ok$", done.stdout, re.M)] == [], "the card has them"
    assert "there is no variable 'nobody'" in done.stdout + done.stderr and "went on" in done.stdout


def test_the_guide_s_code_runs_and_a_report_is_a_page(client: Client, tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"client": client, "step": launch, "batches": [1, 2]}
    for block in re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.M | re.S):
        exec(block, names)
    assert names["r"].recording.by_task().launches.sum() == 3
    assert "axpy" in (tmp_path / "report.html").read_text()
    with pytest.raises(ZeroDivisionError), kernelscope.dask.report(client, tmp_path / "failed"):
        client.submit(launch, 1).result()
        _ = 1 / 0
    assert "axpy" in (tmp_path / "failed.html").read_text()


def test_one_recording_at_a_time_and_a_closed_client_ends_its_own(cluster: LocalCluster, client: Client) -> None:
    with Client(cluster) as other:
        recorder = kernelscope.dask.record(other, "first").start()
        with pytest.raises(kernelscope.RecorderStateError, match="recorded already as 'first' by another client"):
            kernelscope.dask.record(client, "second").start()
        pids = on_each(other, launch, 2)
    until(lambda: not plugins(client))
    with kernelscope.dask.record(client) as second:
        on_each(client, launch, 1)
    recording = recorder.stop()
    assert launches(recording) == dict.fromkeys(pids.values(), 2)
    (message,) = messages(recording)
    assert "the client was closed before" in message
    assert set(launches(second.recording).values()) == {1}


def test_two_clients_use_a_cluster_that_one_of_them_records(cluster: LocalCluster, client: Client) -> None:
    with Client(cluster) as other, kernelscope.dask.record(client) as recorder:
        ours, theirs = client.submit(launch, 1, pure=False), other.submit(launch, 2, pure=False)
        expected = Counter({ours.result(): 1}) + Counter({theirs.result(): 2})
    assert Counter(launches(recorder.recording)) == expected
    assert recorder.recording.by_task().launches.sum() == 3


def test_ctrl_c_while_files_are_fetched_keeps_what_is_there(
        client: Client, left: Callable[[], list[Path]], monkeypatch: pytest.MonkeyPatch) -> None:
    run, fetched = client.run, []

    def interrupted(function: Any, **given: Any) -> Any:
        if function.__name__ == "fetch":
            fetched.append(function)
            if len(fetched) == 2:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            if len(fetched) > 1:
                return run(forever, **given)
        return run(function, **given)

    async def forever(folder: str, name: str) -> None:
        import asyncio

        await asyncio.sleep(3600)

    monkeypatch.setattr(client, "run", interrupted)
    monkeypatch.setattr("kernelscope.dask.cluster._AT_ONCE", 1)
    recorder = kernelscope.dask.record(client).start()
    pids = on_each(client, launch, 2)
    with pytest.raises(KeyboardInterrupt):
        recorder.stop()
    (kept,) = launches(recorder.recording)
    assert launches(recorder.recording) == {kept: 2}
    (message,) = messages(recorder.recording)
    (folder,) = left()
    assert message.startswith(f"interrupted: the recordings of {WORKERS - 1} workers were not fetched")
    assert str(folder) in message
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not plugins(client)
    rest = kernelscope.processes.collect(folder)
    shutil.rmtree(folder)
    assert sorted([kept, *launches(rest)]) == sorted(pids.values())


def test_workers_without_kernelscope_or_of_another_version_are_named_and_others_go_on(client: Client) -> None:
    def forget() -> None:
        import sys

        sys.modules["kept"] = sys.modules["kernelscope.dask.worker"]
        sys.modules["kernelscope.dask.worker"] = None  # type: ignore[assignment]

    def remember() -> None:
        import sys

        import kernelscope

        if "kept" in sys.modules:
            sys.modules["kernelscope.dask.worker"] = sys.modules.pop("kept")
        kernelscope.__version__ = kernelscope.__version__.removesuffix(".dev9")

    def age() -> None:
        import kernelscope

        kernelscope.__version__ += ".dev9"

    workers = addresses(client)
    client.run(forget, workers=[workers["1"]])
    client.run(age, workers=[workers["2"]])
    try:
        with kernelscope.dask.record(client) as recorder:
            pids = on_each(client, launch, 2)
    finally:
        client.run(remember)
    without, version = sorted(messages(recorder.recording))
    assert without.startswith("worker 1 was not recorded: kernelscope cannot be imported there")
    assert version == (f"worker 2 records with kernelscope {kernelscope.__version__}.dev9, and this client has "
                       f"{kernelscope.__version__}")
    del pids["1"]
    assert launches(recorder.recording) == dict.fromkeys(pids.values(), 2)


def test_a_worker_whose_clock_is_another_is_moved_by_pings(client: Client) -> None:
    """As one of another machine: a second ahead, and 100 ppm fast."""
    def shift(by: int) -> None:
        import time

        from kernelscope.dask import worker

        start = time.perf_counter_ns()

        def other_clock() -> int:
            now = time.perf_counter_ns()
            return now + by + (now - start) // 10_000

        worker.now = other_clock if by else time.perf_counter_ns

    workers = addresses(client)
    client.run(shift, 10**9, workers=[workers["2"]])
    try:
        with kernelscope.dask.record(client) as recorder:
            before = time.perf_counter_ns()
            on_each(client, launch, 2)
            after = time.perf_counter_ns()
    finally:
        client.run(shift, 0)
    recording = recorder.recording
    processes = recording.processes.set_index("worker")
    bound = processes.clock_bound_ns["2"]
    assert abs(processes.clock_offset_ns["2"] + 10**9) <= bound + (after - before) // 10_000 + 10**6
    assert processes.drop("2").clock_bound_ns.isna().all()  # they share the machine's clock, and need no moving
    (message,) = messages(recording)
    assert message.startswith("worker 2: its clock is not that of the scheduler, on the same machine")
    times = recording.launches.start_ns
    assert ((times >= before - bound) & (times <= after + bound)).all()


def test_what_a_worker_hands_over_is_read_as_any_file(client: Client, left: Callable[[], list[Path]]) -> None:
    with kernelscope.dask.record(client) as recorder:
        pids = on_each(client, launch, 1)
        (folder,) = left()
        (folder / "0-harmful.kscope").write_bytes(b"PK nothing")
    assert len(launches(recorder.recording)) == len(pids)
    assert [row["message"] for row in recorder.recording.rows("health") if "harmful" in row["message"]]


def test_a_folder_that_others_may_write_to_is_named_and_not_read(tmp_path: Path) -> None:
    assert recorded_worker.left_in(tmp_path / "nothing") == []
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(kernelscope.KernelScopeError, match="others can write to .*: a worker records only"):
        recorded_worker.left_in(folder)


@pytest.mark.parametrize(("given", "message"), [
    ({"journal": True}, "each worker keeps a journal"), ({"detail": "all"}, "detail 'all' is not one of")])
def test_options_that_are_not_for_a_cluster_are_refused(client: Client, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernelscope.dask.record(client, **given)


def test_workers_that_are_threads_of_one_process_are_one_process(tmp_path: Path) -> None:
    with (Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0",
                 local_directory=str(tmp_path)) as client, kernelscope.dask.record(client) as recorder):
        on_each(client, launch, 2)
    recording = recorder.recording
    assert launches(recording) == {os.getpid(): 4}
    assert ["are threads of one process" in message for message in messages(recording)] == [True]
    assert recording.by_task().launches.tolist() == [4]


def test_a_killed_worker_loses_nothing_that_was_completed_and_what_comes_for_it_is_recorded(
        cluster: LocalCluster, client: Client, left: Callable[[], list[Path]]) -> None:
    with kernelscope.dask.record(client) as recorder:
        pids = on_each(client, launch, 2)
        dies = addresses(client)["0"]
        future = client.submit(die, 7, workers=[dies], allow_other_workers=False)
        assert future.exception() is not None
        cluster.scale(WORKERS + 1)
        client.wait_for_workers(WORKERS + 1, timeout=600)
        until(lambda: set(addresses(client)) == {str(number) for number in range(WORKERS + 1)})
        again = on_each(client, launch, 1)
        cluster.scale(2)
        until(lambda: len(addresses(client)) == 2)
    recording = recorder.recording
    assert len(set(again.values()) - set(pids.values())) == 2  # one anew, and one that has joined
    assert Counter(launches(recording)) == (
        Counter(dict.fromkeys(pids.values(), 2)) + Counter({pids["0"]: 7}) + Counter(dict.fromkeys(again.values(), 1)))
    row = recording.processes.set_index("pid").loc[pids["0"]]
    assert (row.status, row.worker) == ("killed", "0")
    # On a busy machine a nanny may kill a worker that closes, before it has written its file.
    assert {*recording.processes.status} == {"ok", "killed"}
    (died,) = recording.by_task().query("task == 'die'").itertuples()
    assert (died.tasks, died.unfinished, died.launches) == (1, 1, 7)
    card = recording.summary()
    assert re.search(r"\d killed \(.*worker 0", card) and re.search(r"^ *worker 0 .* killed$", card, re.M)
    assert re.search(r"^Tasks: 8, 2 prefixes, 1 not ended$", card, re.M)
    assert left() == []


def test_a_restarted_cluster_is_recorded_before_and_after(client: Client, left: Callable[[], list[Path]]) -> None:
    with kernelscope.dask.record(client) as recorder:
        before = on_each(client, launch, 2)
        client.restart()
        after = on_each(client, launch, 3)
    assert not set(before.values()) & set(after.values())
    assert launches(recorder.recording) == {
        **dict.fromkeys(before.values(), 2), **dict.fromkeys(after.values(), 3)}
    assert Counter(recorder.recording.processes.worker) == Counter(dict.fromkeys(before, 2))
    assert np.isin(recorder.recording.processes.status, ("ok", "killed")).all()
    assert left() == []
