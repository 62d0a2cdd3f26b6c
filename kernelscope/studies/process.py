"""A benchmark process of a target: started, asked and ended; and the machine that it ran on."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import kernelscope
from kernelscope.errors import StudyError
from kernelscope.recorder.environment import processor
from kernelscope.studies.environments import interrupts_postponed, run_uninterrupted
from kernelscope.views.base import clean, shorten

_SAMPLE_S = 0.1
_MOST_CORES = 16  # that are tried in turn
_IDLE = (3, 4)  # the places of idle and iowait among a core's times in /proc/stat


def describe(cores: Sequence[int], root: Path = Path("/")) -> dict[str, Any]:
    """Return what is known of this machine, as `Measured.host` has it.

    Parameters
    ----------
    cores : sequence of int
        The cores that processes are put on; none where they are not.
    root : Path
        Where ``/proc`` and ``/sys`` are.
    """
    usable = usable_cores()
    first = [*cores, *usable, 0][0]
    return {
        "processor": processor(root),
        "cores": os.cpu_count(),
        "usable_cores": len(usable) or None,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "governor": _read(root / f"sys/devices/system/cpu/cpu{first}/cpufreq/scaling_governor"),
        "load_before": load(),
    }


def load() -> float | None:
    """Return how many processes ran or waited to run, on average over the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def usable_cores() -> list[int]:
    """Return the processor cores that this process may use; none where the system does not tell."""
    try:
        return sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return []


def choose_cores(root: Path = Path("/")) -> tuple[int, ...]:
    """Return cores to be on, the one first that was idle most just now; none where processes cannot be put on a core.

    Not the first core, which serves interrupts, where there are others; and those only that are as near to memory and
    devices as the first that is returned: the others of its NUMA node.
    """
    cores = usable_cores()
    if not cores:
        return ()
    try:
        os.sched_setaffinity(0, cores)
    except OSError:
        return ()
    before = idle_times(root)
    time.sleep(_SAMPLE_S)
    after = idle_times(root)
    choice = cores[1:] or cores
    choice.sort(key=lambda core: (before.get(core, 0) - after.get(core, 0), -core))
    near = _node(choice[0], root)
    return tuple(core for core in choice if near is None or core in near)[:_MOST_CORES]


def together(targets: int) -> int:
    """Return of how many generations the processes of so many targets may start side by side.

    A process keeps one core busy while it starts. More than four generations would save little, and each process holds
    some hundred megabytes of the GPU.
    """
    return max(1, min(4, len(usable_cores()) // max(1, targets)))


def idle_times(root: Path = Path("/")) -> dict[int, int]:
    """Return how long each core was idle, in the system's ticks."""
    times: dict[int, int] = {}
    for line in (_read(root / "proc/stat") or "").splitlines():
        name, *numbers = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and len(numbers) > max(_IDLE):
            with contextlib.suppress(ValueError):
                times[int(name[3:])] = sum(int(numbers[place]) for place in _IDLE)
    return times


def _node(core: int, root: Path) -> set[int] | None:
    """Return the cores of a core's NUMA node, or None where that is not known."""
    for path in sorted((root / "sys/devices/system/node").glob("node[0-9]*/cpulist")):
        held: set[int] = set()
        for part in (_read(path) or "").split(","):
            first, _, last = part.partition("-")
            with contextlib.suppress(ValueError):
                held.update(range(int(first), int(last or first) + 1))
        if core in held:
            return held
    return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


# How a benchmark process is started in a target's interpreter.
#
# The process gets this package's folder ``bench`` as a package of its own, ``_kernelscope_bench``, loaded from its
# files: ``sys.path`` holds what the target's environment has and nothing of KernelScope's, so that no module of a
# target is hidden by one of ours, and a target's packages are what is measured. The current folder is not on
# ``sys.path`` either.

BENCH = Path(__file__).parent / "bench"


#: Arguments: the folder of the package, and the file descriptors of requests and of answers.
_BOOTSTRAP = """\
import sys
if sys.path and sys.path[0] == '':
    del sys.path[0]
from importlib.util import module_from_spec, spec_from_file_location
folder, requests, answers = sys.argv[1:]
del sys.argv[1:]
spec = spec_from_file_location('_kernelscope_bench', folder + '/__init__.py', submodule_search_locations=[folder])
sys.modules[spec.name] = module_from_spec(spec)
spec.loader.exec_module(sys.modules[spec.name])
from _kernelscope_bench.main import main
main(int(requests), int(answers))
"""


def command(python: Path) -> list[str]:
    """Return the command that starts a benchmark process in an interpreter.

    Two arguments follow it: the file descriptors that requests come from and that answers go to, which the process must
    inherit (``pass_fds``). What it prints is not buffered, so that a process that is killed has said all it had to.
    """
    return [str(python), "-u", "-c", _BOOTSTRAP, str(BENCH)]


def dry_run_fields() -> dict[str, str]:
    """Return what a hello says to have a dry run: the folder of this KernelScope, and the null driver's file.

    The driver is built here if it is not yet, so that targets need neither a compiler nor ``cuda.h``.

    Raises
    ------
    DryRunError
        If it cannot be built.
    """
    from kernelscope.dryrun import build, is_enabled, status

    library = status().library if is_enabled() else str(build.build(lambda line: print(line, file=sys.stderr)))
    return {"dryrun": package_folder(), "library": library or ""}


def package_folder() -> str:
    """Return the folder that holds the package kernelscope, for ``hello``'s ``dryrun`` and ``kernelscope``."""
    return str(Path(kernelscope.__file__).resolve().parent.parent)


# A benchmark process of a target: started, asked, and ended, whatever it does meanwhile.
#
# Requests and answers are JSON objects, one a line, over two pipes of their own, so that a target may print what it
# likes. What it prints is kept for the message, should it crash. It leads a process group of its own: a Ctrl-C in
# the terminal does not reach it, and it ends together with whatever it has started.

#: An answer that is longer is none.
LONGEST_ANSWER = 16 * 2**20
_TAIL_BYTES = 8192
_TAIL_LINES = 4
_TAIL_WIDTH = 400
# A process that has been asked to end, or that has crashed, is gone within milliseconds; a GPU's context takes longer.
_ENDING_S = 3.0
_LONGEST_WAIT_S = 1e6  # as much as the system takes


class ProcessError(StudyError):
    """Raised when a benchmark process crashed, hung or answered nonsense; the process has been ended."""


class RefusedError(StudyError):
    """Raised when a benchmark process refuses a request; the process goes on.

    Attributes
    ----------
    kind : str
        ``unavailable``: this target does not have it; ``error``: it failed.
    """

    def __init__(self, text: str, kind: str = "error") -> None:
        super().__init__(text)
        self.kind = kind


class BenchProcess:
    """A process that answers one request at a time.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments; the numbers of the two pipes' ends, for requests and for answers, are added.
    environ : mapping of str to str
        Its whole environment.
    cwd : Path
        Its folder.
    held : list of BenchProcess, optional
        Who ends processes: this one is added before it is started, so that none is lost to a Ctrl-C.

    Raises
    ------
    ProcessError
        The program cannot be started.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], cwd: Path,
                 held: list[BenchProcess] | None = None) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._request: Mapping[str, Any] = {"do": "hello"}
        self._deadline = 0.0
        self._timeout_s = 0.0
        self._pending = b""
        # Without a name: nothing is left of it, however this process ends.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - `kill` closes it
        self._last = ""
        if held is not None:
            held.append(self)
        theirs, self._requests = os.pipe()
        self._answers, their_answers = os.pipe()
        os.set_blocking(self._requests, False)
        try:
            with interrupts_postponed():
                self._process = subprocess.Popen(
                    [*command, str(theirs), str(their_answers)], stdin=subprocess.DEVNULL, stdout=self._output,
                    stderr=subprocess.STDOUT, env=dict(environ), cwd=cwd, pass_fds=(theirs, their_answers),
                    start_new_session=True)
        except BaseException as error:
            self.kill()
            if isinstance(error, OSError):
                raise ProcessError(f"cannot start {command[0]}: {error.strerror or error}") from error
            raise
        finally:
            os.close(theirs)
            os.close(their_answers)

    def __del__(self) -> None:
        self._close_pipes()

    @property
    def pid(self) -> int | None:
        """Return the process's id, which is also that of its group; None if it was not started."""
        return None if self._process is None else self._process.pid

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises
        ------
        RefusedError
            The process says that it cannot.
        ProcessError
            It crashed, gives no answer in time, or answers nonsense.
        """
        self.send(request, timeout_s)
        return self.receive()

    def send(self, request: Mapping[str, Any], timeout_s: float) -> None:
        """Send a request, whose answer `receive` returns; raises `ProcessError`."""
        self._request = request
        if self._requests == -1:
            raise ProcessError(f"it has ended, and is not {self._doing()} any more")
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        rest = memoryview(json.dumps(request).encode() + b"\n")
        try:
            while rest:
                self._wait_for(self._requests, select.POLLOUT)
                rest = rest[os.write(self._requests, rest):]
        except BrokenPipeError:
            raise self._ended() from None

    def receive(self) -> dict[str, Any]:
        """Return the answer to the request that was sent last; raises as `ask` does."""
        while b"\n" not in self._pending:
            self._wait_for(self._answers, select.POLLIN)
            piece = os.read(self._answers, 2**16)
            if not piece:
                raise self._ended()
            self._pending += piece
            if len(self._pending) > LONGEST_ANSWER:
                raise self.failure(f"answered more than {LONGEST_ANSWER // 2**20} MiB while {self._doing()}")
        line, _, self._pending = self._pending.partition(b"\n")
        try:
            answer: Any = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not isinstance(answer.get("ok"), bool):
            excerpt = _one_line(line.decode("utf-8", "replace"), 80)
            raise self.failure(f"answered what is no answer while {self._doing()}: {excerpt}")
        if not answer["ok"]:
            kind = "unavailable" if answer.get("kind") == "unavailable" else "error"
            raise RefusedError(_one_line(str(answer.get("error") or "no reason given")), kind)
        return answer

    def number(self, answer: Mapping[str, Any], name: str, least: float, what: type = int) -> Any:
        """Return a number of an answer; raises `ProcessError` where it is none, or less than `least`."""
        value: Any = answer.get(name)
        fits = isinstance(value, int if what is int else (int, float)) and not isinstance(value, bool)
        if not fits or not least <= value < float("inf"):
            raise self.failure(f"answered {name}={_one_line(repr(value))} while {self._doing()}")
        return what(value)

    def numbers(self, answer: Mapping[str, Any], least: Mapping[str, int]) -> list[int]:
        """Return whole numbers of an answer, of these names and not less than these; raises as `number` does."""
        return [self.number(answer, name, low) for name, low in least.items()]

    def failure(self, what: str) -> ProcessError:
        """End the process and return the error that says what it did, and what it printed last."""
        self.kill()
        tail = self.tail()
        return ProcessError(f"{what}; it printed last: {tail}" if tail else what)

    def tail(self) -> str:
        """Return the last lines that the process printed, as one line of text that is safe to show."""
        if self._output.closed:
            return self._last
        size = os.fstat(self._output.fileno()).st_size
        text = os.pread(self._output.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        crash = next((place for place, line in enumerate(lines) if line.startswith("Fatal Python error:")), None)
        # Where it crashed comes first in what faulthandler writes; its end is this package, and all that was imported.
        last = lines[-_TAIL_LINES:] if crash is None else lines[crash:crash + _TAIL_LINES]
        return _one_line(" | ".join(last), _TAIL_WIDTH)

    def kill(self) -> None:
        """End the process and all that it has started, at once; it may have ended before."""
        self._close_pipes()
        # The process is not waited for yet, so the group's number is still its own.
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # a driver may hold it in the kernel
                process.wait(_ENDING_S)
        self._last = self.tail()
        self._output.close()

    def close(self) -> None:
        """Do as `close_all` does, for this process alone."""
        close_all([self])

    def _wait_for(self, descriptor: int, event: int) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        left = min(self._deadline - time.monotonic(), _LONGEST_WAIT_S)
        # An event is also that the other end is closed, which reading and writing then tell.
        if not poll.poll(max(0.0, left * 1000)):
            raise self.failure(f"gave no answer within {self._timeout_s:g} s while {self._doing()}, and was stopped")

    def _doing(self) -> str:
        """Return a description of the last request."""
        what, case = self._request.get("do"), self._request.get("case")
        name: Any = case.get("name") if isinstance(case, Mapping) else case
        action = {"hello": "starting", "prepare": "preparing", "batch": "timing", "noise": "measuring the noise",
                 "anatomy": "taking apart"}.get(str(what), f"doing {what!r}")
        return f"{action} {clean(name)!r}" if name else action

    def _ended(self) -> ProcessError:
        """Return the error for a process that has closed its pipes, which one does that ends."""
        if not self._gone_within(_ENDING_S):
            return self.failure(f"closed its pipes while {self._doing()}")
        code = self._exit_code()
        if code is None:
            how = "ended"
        elif code < 0:
            how = f"crashed with {_signal_name(-code)}"
        else:
            how = f"ended with exit code {code}"
        return self.failure(f"{how} while {self._doing()}")

    def _gone_within(self, seconds: float) -> bool:
        """Return whether the process ends in that time. It stays a zombie, so that its id is not reused."""
        until = time.monotonic() + seconds
        while not self._state():
            if time.monotonic() > until:
                return False
            time.sleep(0.002)
        return True

    def _state(self) -> Any:
        """Return the system's information on the process if it has ended, else None."""
        if self._process is None or self._process.returncode is not None:
            return True
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:  # someone else has waited for it
            return True

    def _exit_code(self) -> int | None:
        state = self._state()
        if not hasattr(state, "si_code"):
            return None if self._process is None else self._process.returncode
        return state.si_status if state.si_code == os.CLD_EXITED else -state.si_status

    def _close_pipes(self) -> None:
        for name in ("_requests", "_answers"):
            descriptor = getattr(self, name, -1)
            setattr(self, name, -1)
            if descriptor != -1:
                with contextlib.suppress(OSError):
                    os.close(descriptor)


def ask_all(requests: Mapping[BenchProcess, Mapping[str, Any]], timeout_s: float,
            ) -> dict[BenchProcess, dict[str, Any] | ProcessError | RefusedError]:
    """Send requests to several processes side by side and return the answers or errors."""
    answers: dict[BenchProcess, dict[str, Any] | ProcessError | RefusedError] = {}
    for process, request in requests.items():
        try:
            process.send(request, timeout_s)
        except ProcessError as error:
            answers[process] = error
    for process in requests:
        if process not in answers:
            try:
                answers[process] = process.receive()
            except (ProcessError, RefusedError) as error:
                answers[process] = error
    return answers


def close_all(processes: Iterable[BenchProcess]) -> None:
    """Let processes end on their own, side by side; after some seconds, or a Ctrl-C, they are killed."""
    living = [process for process in processes if process._process is not None and process._process.returncode is None]
    try:
        for process in living:
            if process._requests != -1:
                with contextlib.suppress(OSError):  # it is gone, or its pipe is full: then it will be killed
                    os.write(process._requests, b'{"do": "bye"}\n')
            process._close_pipes()
        until = time.monotonic() + _ENDING_S
        for process in living:
            process._gone_within(max(0.0, until - time.monotonic()))
    finally:
        kill_all(living)


def kill_all(processes: Sequence[BenchProcess]) -> None:
    """End processes at once, also where more of Ctrl-C comes meanwhile."""
    def kill() -> None:
        for process in processes:
            process.kill()

    run_uninterrupted(kill)


def _one_line(text: str, width: int = 300) -> str:
    return shorten(clean(" ".join(text.split())), width)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
