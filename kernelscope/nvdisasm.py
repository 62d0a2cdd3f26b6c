"""NVIDIA's disassembler ``nvdisasm``: where it is, and machine code as SASS with source lines.

Machine code can come from somebody else's file, and may be made to harm: the program runs with limits on memory, time
and output, in a session of its own that is killed as a whole.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, cast

from kernelscope.errors import DisassemblerError

#: What to do where there is none.
GET = ("pip install 'kernelscope[sass]' brings NVIDIA's nvdisasm; one of a CUDA toolkit on the PATH, or in CUDA_HOME, "
       "does as well")

# Code sections only, with the source lines of inlined functions too.
_OPTIONS = ("-c", "-gi")
_TIMEOUT_S = 60.0
#: What it may allocate, and what it may print: a large kernel takes some hundred MB, and prints some ten.
MAX_MEMORY_BYTES = 4 << 30
MAX_OUTPUT_BYTES = 256 << 20
# How often it is looked whether a program that prints no more has ended.
_POLL_S = 0.002
# What programs say whose allocation was refused.
_OUT_OF_MEMORY = re.compile(rb"memory|bad_alloc|cannot allocate", re.IGNORECASE)
#: A section of code begins in it; 200 bytes stand before the first one.
_HEAD_BYTES = 1_000_000


def find() -> Path | None:
    """Return the newest ``nvdisasm`` of a wheel, or else that of the PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda."""
    name = "nvdisasm.exe" if os.name == "nt" else "nvdisasm"
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        spec = None
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    # nvidia/cu13/bin, nvidia/cuda_nvcc/bin: the folder with the greatest version first, those without one last.
    wheels = [path for place in places for path in Path(place).glob(f"*/bin/{name}") if _runs(path)]
    if wheels:
        return max(wheels, key=lambda path: (path.parts[-3].startswith("cu1"), path.parts[-3]))
    on_path = shutil.which("nvdisasm")
    if on_path:
        return Path(on_path)
    homes = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
    found = (Path(home) / "bin" / name for home in homes if home)
    return next((path for path in found if _runs(path)), None)


def disassemble(cubin: bytes, timeout_s: float = _TIMEOUT_S) -> str:
    """Return the SASS of a cubin, with ``//## File`` lines where it has line information.

    Parameters
    ----------
    cubin : bytes
        The machine code.
    timeout_s : float
        Seconds after which to give up.

    Raises
    ------
    DisassemblerError
        There is no ``nvdisasm``, it fails, or it reached a limit on memory, time or output; the message says what to
        do, or which limit.
    """
    program = find()
    if program is None:
        raise DisassemblerError(f"there is no nvdisasm to show machine code with; {GET}")
    # It reads files only.
    with tempfile.TemporaryDirectory(prefix="kernelscope-") as folder:
        path = Path(folder) / "kernel.cubin"
        try:
            path.write_bytes(cubin)
            done = _run([str(program), *_OPTIONS, str(path)], timeout_s)
        except subprocess.TimeoutExpired:
            raise DisassemblerError(f"{program} took more than {timeout_s:g} s for {len(cubin)} bytes") from None
        except OSError as error:
            raise DisassemblerError(f"{program} cannot be run: {error.strerror or error}; {GET}") from None
    if done.returncode:
        said = " ".join(done.stderr[:_HEAD_BYTES].decode("utf-8", "replace").replace(str(path), "the cubin").split())
        why = f"{program} failed with exit code {done.returncode}: {said[:500] or 'it said nothing'}"
        if _OUT_OF_MEMORY.search(done.stderr[:_HEAD_BYTES]):
            why += f"; it may use {MAX_MEMORY_BYTES} bytes of memory at most"
        raise DisassemblerError(why)
    # A script of the same name on the PATH may print anything, and as much as it likes.
    if b".text." not in done.stdout[:_HEAD_BYTES]:
        raise DisassemblerError(f"{program} printed no SASS, but {len(done.stdout)} bytes of something else")
    return done.stdout.decode("utf-8", "replace")


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _run(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run a program with limits and return how it ended and what it printed; its children end with it."""
    until = time.monotonic() + timeout_s
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    try:
        seconds = _limit(process.pid, timeout_s)
        if sys.platform == "win32":
            printed = process.communicate(timeout=timeout_s)
        else:
            printed = _printed(process, until, timeout_s)
    finally:
        _end(process)
    if sys.platform != "win32" and process.returncode == -signal.SIGXCPU:
        raise DisassemblerError(f"{command[0]} used more than {seconds} s of the processor")
    return subprocess.CompletedProcess(command, process.returncode, *printed)


def _printed(process: subprocess.Popen[bytes], until: float, timeout_s: float) -> tuple[bytes, bytes]:
    """Read what a program prints until it has ended, or prints too much: it would wait for ever to write the rest."""
    program = cast("list[str]", process.args)[0]
    pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    read = {pipe: bytearray() for pipe in pipes}
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(until - time.monotonic(), 0))
            if not ready:
                raise subprocess.TimeoutExpired(process.args, timeout_s)
            for key, _ in ready:
                pipe = cast("IO[bytes]", key.fileobj)
                some = os.read(key.fd, 1 << 16)
                read[pipe] += some
                if len(read[pipe]) > MAX_OUTPUT_BYTES:
                    raise DisassemblerError(f"{program} printed more than {MAX_OUTPUT_BYTES} bytes")
                if not some:
                    selector.unregister(pipe)
        # Its number stays its own until it is waited for, so that `_end` ends no other process.
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(process.args, timeout_s)
            time.sleep(_POLL_S)
    stdout, stderr = (bytes(read[pipe]) for pipe in pipes)
    return stdout, stderr


def _limit(pid: int, timeout_s: float) -> int:
    """Limit a process that has just been started, and return how many seconds of the processor it may use.

    From here and not in the child between fork and exec: `subprocess` runs Python there (``preexec_fn``), which can
    wait for ever for a lock that another thread held. A shell that sets limits and then becomes the program would take
    what is no program for a script. What it has allocated in the microseconds before is within the limit of all that it
    may have. Only Linux can limit another process; elsewhere time and output are limited.
    """
    seconds = math.ceil(timeout_s) + 1
    if sys.platform == "linux":
        import resource

        wanted = {resource.RLIMIT_AS: MAX_MEMORY_BYTES, resource.RLIMIT_CPU: seconds,
                  resource.RLIMIT_FSIZE: MAX_OUTPUT_BYTES, resource.RLIMIT_CORE: 0}
        for what, most in wanted.items():
            hard = resource.prlimit(pid, what)[1]
            if hard == resource.RLIM_INFINITY or hard > most:
                # A second more, or the kernel would kill it at once and not say why.
                resource.prlimit(pid, what, (most, most + (what == resource.RLIMIT_CPU)))
    return seconds


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all of its session, if they have not ended, and close its pipes."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
