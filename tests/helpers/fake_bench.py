"""A benchmark process that launches nothing: it speaks the protocol, with given times, and fails as it is told to.

As a program it gets its behaviour as JSON, and the two pipes. As a module it makes targets of it: `member`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def member(folder: Path, label: str = "baseline", *, expected: Path | None = None, **behaviour: Any) -> Any:
    """Return a target whose processes are fakes.

    Parameters
    ----------
    folder : Path
        Where what the processes did is kept: `done`.
    label : str
        The target's.
    expected : Path, optional
        As `Member` has it.
    **behaviour
        ``ns``: what a launch takes, a number or one by case; ``noise``: its share between processes and within them;
        ``fails``: a list of [how, do, case or None, process or None]; ``prints``: lines; ``hello``: more of the answer;
        ``takes_s``: how long a batch takes; ``meets``: how many processes are in a batch before one of them answers;
        ``stable``: what a warm-up answers; ``references``: what the reference takes in batch after batch, over and
        over; ``core``: on which core a batch was; ``loops``: what a warm-up finds, by process; ``anatomy``: more of the
        answer to that.
    """
    from kernelscope.studies.result import TargetReport
    from kernelscope.studies.runner import Member

    cwd = folder / label
    cwd.mkdir(parents=True, exist_ok=True)
    told = json.dumps({"log": str(folder / "log"), "label": label, **behaviour})
    return Member(TargetReport(label, "current", "this environment"), [sys.executable, "-S", __file__, told],
                  {"PATH": os.environ.get("PATH", ""), "KERNELSCOPE_DRYRUN": "1"}, cwd, expected=expected)


def done(folder: Path) -> list[dict[str, Any]]:
    """Return what processes were asked, in the order of their answers: label, process, do, case, loops, from, to, and
    the request where it is a hello or prepare."""
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


class Fake:
    """The process."""

    def __init__(self, behaviour: dict[str, Any]) -> None:
        self.behaviour = behaviour
        self.number = 0
        while True:  # two may start at the same time
            try:
                os.close(os.open(f"start {self.number}", os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                self.number += 1
        noise = behaviour.get("noise", [0, 0])
        self.factor = 1 + random.gauss(0, noise[0])
        self.within = noise[1]
        self.batches = 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do as a benchmark process does."""
        do, case = request["do"], request.get("case")
        name = case["name"] if isinstance(case, dict) else case
        for how, where, what, process in self.behaviour.get("fails", []):
            if where == do and what in (None, name) and process in (None, self.number):
                return getattr(self, how)()
        if do == "hello":
            return {"framework": "numba-cuda", "versions": {"numba-cuda": "0.30.4"}, "module": os.getcwd(), "gpu": {},
                    "is_dry_run": True, "pinned_to": request.get("pin"), "pin_error": None, "clock_resolution_ns": 1,
                    "clock_read_ns": 40, "python": "3.12.1", **self.behaviour.get("hello", {})}
        if do == "prepare":
            given = self.behaviour.get("loops", [2500])
            return {"loops": given[self.number % len(given)], "warm_batches": 6,
                    "stable": self.behaviour.get("stable", True)}
        if do == "batch":
            ns = self.behaviour.get("ns", 4000)
            ns = ns[name] if isinstance(ns, dict) else ns
            time.sleep(self.behaviour.get("takes_s", 0))
            self.meet(self.behaviour.get("meets", 0))
            spent = ns * request["loops"] * self.factor * (1 + random.gauss(0, self.within))
            return {"host_ns": max(1, round(spent)), "sync_ns": 100, "waited_ns": 7, "reference_ns": self.reference(),
                    "core": self.behaviour.get("core", request.get("core"))}
        if do == "anatomy":
            parts = [{"key": key, "begin": begin, "end": end, "note": "", "reason": None}
                     for key, begin, end in (("dispatch", "entered", "submit"), ("submit", "submit", "end"))]
            ns = self.behaviour.get("ns", 4000)
            return {"loops": request["loops"], "bare_ns": float(ns), "parts": parts, "core": request.get("core"),
                    "parts_ns": {"dispatch": ns - 1000.0, "submit": 1060.0},
                    "stamps_ns": {"dispatch": 60.0, "submit": 60.0}, **self.behaviour.get("anatomy", {})}
        return {"lost": 0.01, "reference_ns": 50_000} if do == "noise" else {}

    def reference(self) -> int:
        """What the reference took beside this batch."""
        given = self.behaviour.get("references", [50_000])
        self.batches += 1
        return given[(self.batches - 1) % len(given)]

    def meet(self, others: int) -> None:
        """Wait until so many processes of all targets are in a batch."""
        if others:
            Path("met").touch()
            while len(list(Path("..").glob("*/met"))) < others:
                time.sleep(0.01)

    def crash(self) -> Any:
        """Die of a signal."""
        print("about to crash\x1b[31m", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(60)

    def leave(self) -> Any:
        """End with an exit code."""
        print("Traceback (most recent call last):\nRuntimeError: no more", file=sys.stderr, flush=True)
        os._exit(7)

    def hang(self) -> Any:
        """Give no answer, and have a child that does not end either."""
        child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
        Path("child").write_text(str(child.pid))
        time.sleep(600)

    def nonsense(self) -> Any:
        """Answer what is no JSON."""
        return None

    def lie(self) -> dict[str, Any]:
        """Answer numbers that cannot be."""
        return {"loops": 0, "host_ns": -5, "sync_ns": "long", "waited_ns": 0}

    def refuse(self) -> dict[str, Any]:
        """Say that it failed."""
        return {"ok": False, "kind": "error", "error": "setup, line 3: NameError: nobody", "traceback": "..."}

    def unavailable(self) -> dict[str, Any]:
        """Say that this target does not have it."""
        return {"ok": False, "kind": "unavailable", "error": "it has no pre-launch callbacks", "traceback": "..."}


def _main(text: str, requests: int, answers: int) -> None:
    behaviour = json.loads(text)
    fake = Fake(behaviour)
    with open(requests) as lines, open(answers, "w") as replies:
        for line in lines:
            request = json.loads(line)
            for each in behaviour.get("prints", []):
                print(each, flush=True)
            begun = time.monotonic_ns()
            answer = fake.answer(request)
            case = request.get("case")
            with open(behaviour["log"], "a") as log:
                log.write(json.dumps({
                    "label": behaviour["label"], "process": fake.number, "do": request["do"],
                    "case": case["name"] if isinstance(case, dict) else case, "loops": request.get("loops"),
                    "core": request.get("core"),
                    "quiet_ns": request.get("quiet_ns"),
                    "from": begun, "to": time.monotonic_ns(),
                    "dry_run": os.environ.get("KERNELSCOPE_DRYRUN"),
                    "request": request if request["do"] in ("hello", "prepare") else None}) + "\n")
            replies.write("{not json\n" if answer is None else json.dumps({"ok": True, **answer}) + "\n")
            replies.flush()
            if request["do"] == "bye":
                return


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
