"""What the client sends to the scheduler, to workers and to nannies: plugins, and functions that are run there.

They are classes and functions inside functions, which cloudpickle sends as code and not as names, so that they work
where kernelscope is not installed, and say so. What is answered is bytes: JSON, or a ``.kscope`` file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The plugins' name, on the scheduler and on workers: there is one recording at a time.
NAME = "kernelscope"


def scheduler_plugin(recording: str, name: str | None, owner: str) -> Any:
    """Return a plugin that holds the cluster's one recording, and knows all workers that there were meanwhile.

    It answers with its clock, which those of the workers are compared with, and ends the recording on the workers when
    the client that owns it has gone.
    """
    from distributed.diagnostics.plugin import SchedulerPlugin

    plugin_name = NAME
    clock_name = f"{NAME}_clock"

    class KernelScope(SchedulerPlugin):
        idempotent = True  # of two that are registered the first stays

        def __init__(self) -> None:
            self.recording, self.name, self.owner = recording, name, owner
            self.seen: dict[str, dict[str, Any]] = {}
            self.boot: str | None = None
            self.scheduler: Any = None
            self.ending: Any = None
            self.is_ending = False

        async def start(self, scheduler: Any) -> None:
            self.scheduler = scheduler
            try:
                with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                    self.boot = file.read(100).strip() or None
            except (OSError, ValueError):
                self.boot = None
            scheduler.handlers[clock_name] = self.clock
            for address in scheduler.workers:
                self.add_worker(scheduler, address)

        def clock(self) -> dict[str, Any]:
            import time

            return {"now": time.perf_counter_ns(), "boot": self.boot}

        def state(self) -> dict[str, Any]:
            return {"recording": self.recording, "name": self.name, "owner": self.owner, "seen": self.seen}

        def begin_to_end(self) -> None:
            # Workers that join from now on are not recorded: nobody would fetch their files.
            self.is_ending = True
            self.scheduler.worker_plugins.pop(plugin_name, None)

        async def end(self) -> None:
            self.begin_to_end()
            await self.scheduler.broadcast(msg={"op": "plugin-remove", "name": plugin_name}, on_error="ignore")
            self.scheduler.handlers.pop(clock_name, None)
            if self.scheduler.plugins.get(plugin_name) is self:
                self.scheduler.remove_plugin(plugin_name)

        def add_worker(self, scheduler: Any, worker: str) -> None:
            if not self.is_ending:
                state = scheduler.workers[worker]
                self.seen[worker] = {"name": str(state.name), "host": state.host, "nanny": state.nanny,
                                     "local_directory": state.local_directory, "gone": False}

        def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:
            if worker in self.seen:
                self.seen[worker]["gone"] = True

        def remove_client(self, scheduler: Any, client: str) -> None:
            if client == self.owner:
                import asyncio

                self.ending = asyncio.get_running_loop().create_task(self.end())

    return KernelScope()


def worker_plugin(settings: Mapping[str, Any]) -> Any:
    """Return a plugin that records on a worker; what is wrong there is its `problem`, and nothing is raised."""
    from distributed.diagnostics.plugin import WorkerPlugin

    class KernelScope(WorkerPlugin):
        def __init__(self) -> None:
            self.settings = dict(settings)
            self.problem = ""
            self.ready: Any = None

        async def setup(self, worker: Any) -> None:
            import asyncio

            self.ready = asyncio.Event()  # a recording may end while a worker that has just joined is here
            try:
                from kernelscope.dask.worker import begin

                await begin(worker, self.settings)
            except ImportError as error:
                self.problem = f"kernelscope cannot be imported there ({error})"
            except Exception as error:
                self.problem = f"{type(error).__name__}: {error}"
            finally:
                self.ready.set()

        async def end(self, worker: Any) -> dict[str, Any]:
            await self.ready.wait()
            if self.problem:
                return {"problem": self.problem}
            from kernelscope.dask.worker import end

            return await end(worker, self.settings["recording"])

        async def teardown(self, worker: Any) -> None:
            await self.ready.wait()
            if not self.problem:
                from kernelscope.dask.worker import close

                await close(worker, self.settings["recording"])

    return KernelScope()


def state_of_scheduler() -> Any:
    """Return a function for the scheduler: which recording there is, and which workers it has seen, as JSON.

    With the id of that recording, it begins to end: workers that join afterwards are not recorded.
    """
    name = NAME

    def state(dask_scheduler: Any, ending: str = "") -> bytes:
        import json

        plugin = dask_scheduler.plugins.get(name)
        if plugin is not None and plugin.recording == ending:
            plugin.begin_to_end()
        return json.dumps({} if plugin is None else plugin.state()).encode()

    return state


def end_on_scheduler() -> Any:
    """Return a function for the scheduler: take a recording's plugins out, there and on all workers."""
    name = NAME

    async def end(dask_scheduler: Any, recording: str) -> None:
        plugin = dask_scheduler.plugins.get(name)
        if plugin is not None and plugin.recording == recording:
            await plugin.end()

    return end


def end_on_worker() -> Any:
    """Return a function for workers: stop, write the file, and say what there is to say, as JSON."""
    name = NAME

    async def end(dask_worker: Any) -> bytes:
        import json

        plugin = dask_worker.plugins.get(name)
        return json.dumps({"problem": "its plugin is not there"} if plugin is None
                          else await plugin.end(dask_worker)).encode()

    return end


def list_on_host() -> Any:
    """Return a function for workers and nannies: what is in these folders of their host, as JSON."""
    async def left(folders: list[str]) -> bytes:
        import asyncio
        import json
        from pathlib import Path

        from kernelscope.dask.worker import left_in

        return json.dumps({folder: await asyncio.to_thread(left_in, Path(folder)) for folder in folders}).encode()

    return left


def fetch_on_host() -> Any:
    """Return a function for workers and nannies: the content of one file of their host's folder."""
    async def fetch(folder: str, name: str) -> bytes:
        import asyncio
        from pathlib import Path

        from kernelscope.dask.worker import content

        return await asyncio.to_thread(content, Path(folder), name)

    return fetch


def remove_on_host() -> Any:
    """Return a function for workers and nannies: remove what was fetched from a folder of their host."""
    async def clean(folder: str, names: list[str]) -> None:
        import asyncio
        from pathlib import Path

        from kernelscope.dask.worker import remove

        await asyncio.to_thread(remove, Path(folder), names)

    return clean
