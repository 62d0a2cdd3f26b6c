"""The command line in this process or in one of its own, and a real IPython kernel, on the dry run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from stand_in_studies import Studies

from kernelscope.commands.cli import main

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = '''
"""The script's docstring."""
from __future__ import annotations
import sys
import kernelscope  # switches the dry run on where the environment asks for it
import numpy as np
from numba import cuda

@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i]

array = cuda.to_device(np.zeros(64, np.float32))
for _ in range(3):
    axpy[2, 32](array, 2.0, array)
'''

Cli = Callable[..., "Printed"]


@dataclass(frozen=True)
class Printed:
    """What a command line printed."""

    stdout: str
    stderr: str


def settings(changes: dict[str, str | None]) -> dict[str, str | None]:
    """The environment that is the same for every test, with a test's own changes; None removes a variable."""
    return {"KERNELSCOPE_DRYRUN": "1", "COLUMNS": "100", "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0", **changes}


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run ``kernelscope`` in the test's folder; keyword arguments are environment variables, None removes one."""

    def run(*arguments: str, code: int = 0, **environment: str | None) -> Printed:
        out, err = StringIO(), StringIO()
        with monkeypatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
            patched.chdir(tmp_path)
            for name, value in settings(environment).items():
                patched.delenv(name, raising=False) if value is None else patched.setenv(name, value)
            # `kernelscope run` leaves the program in their place.
            patched.setattr(sys, "argv", list(sys.argv))
            patched.setattr(sys, "path", list(sys.path))
            patched.setitem(sys.modules, "__main__", sys.modules["__main__"])
            try:
                ended: object = main(arguments)
            except SystemExit as raised:
                ended = raised.code
        assert ended == code, f"{ended}\n{out.getvalue()}\n{err.getvalue()}"
        return Printed(out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def process(tmp_path: Path) -> Cli:
    """The same in a process of its own, with warnings as errors: for what depends on the process."""

    def run(*arguments: str, code: int = 0, **environment: str | None) -> Printed:
        changed = {**os.environ, "PYTHONPATH": str(ROOT), **settings(environment)}
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-m", "kernelscope", *arguments], cwd=tmp_path,
            env={name: value for name, value in changed.items() if value is not None},
            capture_output=True, text=True, timeout=600, check=False)
        assert ran.returncode == code, f"{ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return Printed(ran.stdout, ran.stderr)

    return run


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Write a script that launches three times and then does what it is given."""

    def write(more: str = "") -> Path:
        path = tmp_path / "script.py"
        path.write_text(SCRIPT + more, encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one cell of three launches and one of none."""
    from kernelscope import Recorder
    from kernelscope.clock import FakeClock
    from kernelscope.probes.scripted import Launch, ScriptedProbe
    from kernelscope.recording.merge import merge

    parts = []
    for number, name in enumerate(("first", "<second>"), 1):
        probe, clock = ScriptedProbe(), FakeClock(start_ns=1_000_000 * number)
        recorder = Recorder(name, probes=[probe], clock=clock).start()
        recorder.begin_cell(name, execution_count=number)
        for place in range(3 if number == 1 else 0):
            start = clock.time_ns + 20_000 * place
            probe.emit(Launch(kernel="axpy", start_ns=start, phases_ns=(1000, 2000, 3000, 4000)))
        clock.advance(100_000)
        recorder.end_cell()
        parts.append(recorder.stop())
    return merge(parts).save(tmp_path_factory.mktemp("recorded") / "two.kscope")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Studies:
    """Studies that measure nothing, and keep what they were asked for."""
    made = Studies()
    made.put_in_place(monkeypatch)
    return made


# ---- a notebook ----

TIMEOUT_S = 120

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

    def add(self, kind: str, content: dict[str, Any]) -> None:
        """Add a message; a kernel sends one stream in as many as its timer makes of it, which are joined to one."""
        last_kind, last = self.messages[-1] if self.messages else ("", {})
        if kind == last_kind == "stream" and content["name"] == last["name"]:
            last["text"] += content["text"]
        else:
            self.messages.append((kind, content))

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
    """Whether an output is a card, or the table of cells."""
    html = content.get("data", {}).get("text/html", "")
    return part_of(content) is None and re.search('class="kscope[" ]', html) is not None


def part_of(content: dict[str, Any]) -> str | None:
    """Return which part of a timeline it is, or that it is what makes the table of cells sort; else None."""
    known = content.get("metadata", {}).get("kernelscope", {})
    part: str | None = known.get("timeline") or (known["cells"] if known.get("cells") == "widget" else None)
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
        """Run a cell; `interrupt` it once, when its stdout says ``ready``."""
        ran = Ran()
        waits = interrupt

        def on_output(message: dict[str, Any]) -> None:
            nonlocal waits
            kind, content = message["header"]["msg_type"], message["content"]
            if kind in ("stream", "display_data", "execute_result", "error", "update_display_data"):
                ran.add(kind, content)
            if waits and "ready" in ran.stdout:
                waits = False
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
        started[-1].ok(SETUP)
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
