"""A real IPython kernel that the tests run cells in, on the dry run."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 60

SETUP = """
import asyncio, sys, time
import numpy as np
from numba import cuda
import numba.cuda.dispatcher as dispatcher
import kernelscope, kernelscope.recorder.recorder, kernelscope.recorder.session

@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i]

a = cuda.to_device(np.zeros(64, np.float32))
axpy[2, 32](a, 2.0, a)
shell = get_ipython()

def launch_path():
    functions = [dispatcher.CUDADispatcher.call, dispatcher.CUDADispatcher.compile, dispatcher._Kernel.launch,
                 dispatcher.launch, dispatcher.compile_cuda]
    return [(function, getattr(function, "__code__", None)) for function in functions]

own_launch_path = launch_path()
"""

# What must hold after every cell, whatever it did.
LEFT = """
assert kernelscope.recorder.session.Session.active is None, "a recorder was left running"
assert "showtraceback" not in vars(get_ipython()), "showtraceback is still ours"
assert launch_path() == own_launch_path, "the launch path is still hooked"
"""


@dataclass
class Ran:
    """What running one cell sent back, in order."""

    status: str = ""
    reply: dict[str, Any] = field(default_factory=dict)
    messages: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def kinds(self) -> list[str]:
        """The outputs' kinds; a card is called card, wherever it stands, and timelines are left out."""
        return ["card" if is_card(content) else kind for kind, content in self.messages if not part_of(content)]

    @property
    def timelines(self) -> list[str]:
        """Of each output of a timeline, which part of it that is: picture, widget."""
        return [part for _, content in self.messages if (part := part_of(content))]

    @property
    def cards(self) -> list[dict[str, str]]:
        return [content["data"] for _, content in self.messages if is_card(content)]

    @property
    def card(self) -> str:
        """The text of the one card."""
        assert len(self.cards) == 1, self.kinds
        return self.cards[0]["text/plain"]

    @property
    def values(self) -> list[str]:
        """What was shown as Out, as text; without cards."""
        return [content["data"]["text/plain"] for kind, content in self.messages
                if kind == "execute_result" and not is_card(content)]

    @property
    def stdout(self) -> str:
        return self._stream("stdout")

    @property
    def stderr(self) -> str:
        return self._stream("stderr")

    @property
    def traceback(self) -> str:
        """The one traceback, without colors."""
        shown = [content for kind, content in self.messages if kind == "error"]
        assert len(shown) == 1, self.kinds
        return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(shown[0]["traceback"]))

    def _stream(self, name: str) -> str:
        return "".join(content["text"] for kind, content in self.messages
                       if kind == "stream" and content["name"] == name)


def is_card(content: dict[str, Any]) -> bool:
    return 'class="kscope"' in content.get("data", {}).get("text/html", "")


def part_of(content: dict[str, Any]) -> str | None:
    part: str | None = content.get("metadata", {}).get("kernelscope", {}).get("timeline")
    return part


class Notebook:
    """Runs cells in a kernel."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._manager = KernelManager(kernel_name="python3")
        path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
        environment = {**os.environ, "PYTHONPATH": path, "KERNELSCOPE_DRYRUN": "1",
                       "IPYTHONDIR": str(folder / "ipython")}
        self._manager.start_kernel(env=environment, cwd=str(folder), extra_arguments=["--log-level=ERROR"])
        self._client: BlockingKernelClient = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=TIMEOUT_S)

    def run(self, code: str, *, interrupt: bool = False, **options: Any) -> Ran:
        """Run a cell; `interrupt` it when its stdout says ``ready``."""
        ran = Ran()

        def on_output(message: dict[str, Any]) -> None:
            kind, content = message["header"]["msg_type"], message["content"]
            if kind in ("stream", "display_data", "execute_result", "error", "update_display_data"):
                ran.messages.append((kind, content))
            if interrupt and kind == "stream" and "ready" in content["text"]:
                time.sleep(0.05)
                self._manager.interrupt_kernel()

        message = self._client.execute_interactive(code, timeout=TIMEOUT_S, output_hook=on_output, **options)
        ran.reply = message["content"]
        ran.status = ran.reply["status"]
        return ran

    def ok(self, code: str) -> Ran:
        """Run a cell that must not fail."""
        ran = self.run(code)
        assert ran.status == "ok", ran.messages
        return ran

    def value(self, expression: str) -> str:
        """What an expression gives, as text."""
        return self.ok(expression).values[-1]

    def run_to_death(self, code: str) -> None:
        """Run a cell that ends the kernel."""
        self._client.execute(code)
        deadline = time.monotonic() + TIMEOUT_S
        while self._manager.is_alive():
            assert time.monotonic() < deadline, "the kernel lives"
            time.sleep(0.05)

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


@pytest.fixture(scope="session")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """One kernel for the whole session: it takes a second to start and another to import numba."""
    notebook = Notebook(tmp_path_factory.mktemp("notebook"))
    try:
        notebook.ok(SETUP)
        yield notebook
    finally:
        notebook.close()


@pytest.fixture
def new_kernel(tmp_path: Path) -> Iterator[Callable[[], Notebook]]:
    """Start a kernel of the test's own."""
    started: list[Notebook] = []

    def start() -> Notebook:
        started.append(Notebook(tmp_path))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def notebook(kernel: Notebook) -> Iterator[Notebook]:
    """The kernel with a fresh extension; after the test nothing of a recording may be left, nor one for the next."""
    kernel.ok("%load_ext kernelscope")
    yield kernel
    # While it is on, the cell that looks for what is left would itself be recorded.
    kernel.run("%kernelscope off")
    try:
        kernel.ok(LEFT)
    finally:
        kernel.run("%unload_ext kernelscope\nshell.meta.clear()")
    kernel.ok(LEFT)
