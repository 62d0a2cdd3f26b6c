"""What the client sends to the scheduler, to workers and to nannies: plugins, and functions that are run there.

They are classes and functions inside functions, which cloudpickle sends as code and not as names, so that they work
where kernelscope is not installed, and say so. What workers answer is bytes: JSON, or a ``.kscope`` file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The plugins' name, on the scheduler and on workers: there is one recording at a time.
NAME = "kernelscope"


def scheduler_plugin(recording: str, name: str | None, owner: str) -> Any:
    """Return a plugin that holds the cluster's one recording, and knows all workers that there were meanwhile.

    It ends the recording on the workers when the client that owns it has gone.
    """
    from distributed.diagnostics.plugin import SchedulerPlugin

    plugin_name = NAME

    class KernelScope(SchedulerPlugin):
        idempotent = True  # of two that are registered the first stays

        def __init__(self) -> None:
            self.recording, self.name, self.owner = recording, name, owner
            self.seen: dict[str, dict[str, Any]] = {}
            self.scheduler: Any = None
            self.ending: Any = None

        async def start(self, scheduler: Any) -> None:
            self.scheduler = scheduler
            for address in scheduler.workers:
                self.add_worker(scheduler, address)

        def add_worker(self, scheduler: Any, worker: str) -> None:
            state = scheduler.workers[worker]
            self.seen[worker] = {"name": str(state.name), "host": state.host, "nanny": state.nanny,
                                 "local_directory": state.local_directory, "gone": False}

        def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
            if worker in self.seen:
                self.seen[worker]["gone"] = True

        def remove_client(self, scheduler: Any, client: str) -> None:
            if client == self.owner:
                import asyncio

                self.ending = asyncio.get_running_loop().create_task(self.give_up(scheduler))

        async def give_up(self, scheduler: Any) -> None:
            if plugin_name in scheduler.worker_plugins:
                await scheduler.unregister_worker_plugin(None, plugin_name)
            if scheduler.plugins.get(plugin_name) is self:
                scheduler.remove_plugin(plugin_name)

    return KernelScope()


def worker_plugin(settings: Mapping[str, Any]) -> Any:
    """Return a plugin that records on a worker; what is wrong there is its `problem`, and nothing is raised."""
    from distributed.diagnostics.plugin import WorkerPlugin

    class KernelScope(WorkerPlugin):
        def __init__(self) -> None:
            self.settings = dict(settings)
            self.problem = ""

        async def setup(self, worker: Any) -> None:
            import asyncio

            try:
                from kernelscope.dask.worker import begin

                await asyncio.to_thread(begin, worker, self.settings)
            except ImportError as error:
                self.problem = f"kernelscope cannot be imported there ({error})"
            except Exception as error:
                self.problem = f"{type(error).__name__}: {error}"

        async def teardown(self, worker: Any) -> None:
            import asyncio

            if not self.problem:
                from kernelscope.dask.worker import close

                await asyncio.to_thread(close, worker, self.settings["recording"])

    return KernelScope()


def state_of_scheduler() -> Any:
    """Return a function for the scheduler: which recording there is, and which workers it has seen, as JSON."""
    name = NAME

    def state(dask_scheduler: Any) -> bytes:
        import json

        plugin = dask_scheduler.plugins.get(name)
        return json.dumps({} if plugin is None else {
            "recording": plugin.recording, "name": plugin.name, "owner": plugin.owner, "seen": plugin.seen}).encode()

    return state


def end_on_worker() -> Any:
    """Return a function for workers: stop, write the file, and say what there is to say, as JSON."""
    name = NAME

    async def end(dask_worker: Any, recording: str) -> bytes:
        import asyncio
        import json

        plugin = dask_worker.plugins.get(name)
        if plugin is None or plugin.problem:
            return json.dumps({"problem": plugin.problem if plugin else "the plugin is not there"}).encode()
        from kernelscope.dask.worker import end as end_here

        return json.dumps(await asyncio.to_thread(end_here, recording)).encode()

    return end


def list_on_host() -> Any:
    """Return a function for workers and nannies: what is in the folder of their host, as JSON."""
    async def left(dask_worker: Any, folders: dict[str, str]) -> bytes:
        import asyncio
        import json
        from pathlib import Path

        try:
            from kernelscope.dask.worker import left_in
        except ImportError:
            return b"[]"
        return json.dumps(await asyncio.to_thread(left_in, Path(folders[dask_worker.address]))).encode()

    return left


def fetch_on_host() -> Any:
    """Return a function for workers and nannies: the content of one file of their host's folder."""
    async def fetch(dask_worker: Any, folders: dict[str, str], names: dict[str, str]) -> bytes:
        import asyncio
        from pathlib import Path

        from kernelscope.dask.worker import content

        return await asyncio.to_thread(content, Path(folders[dask_worker.address]), names[dask_worker.address])

    return fetch


def remove_on_host() -> Any:
    """Return a function for workers and nannies: remove what was fetched from their host's folder."""
    def clean(dask_worker: Any, folders: dict[str, str], names: dict[str, list[str]]) -> None:
        from pathlib import Path

        from kernelscope.dask.worker import remove

        remove(Path(folders[dask_worker.address]), names[dask_worker.address])

    return clean
