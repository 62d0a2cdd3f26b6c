"""The process that `calibrate` measures in: real launches, recorded and not, one batch at a time.

It speaks the protocol of `bench.main` with requests of its own:

===== =============================================== ================================================================
do    asks with                                       answers with
===== =============================================== ================================================================
hello dryrun, library, pin                            gpu, is_dry_run, best_ns
batch arguments, detail, launches,                    host_ns of all launches, singles (ns of each of as many more),
      core, quiet_ns                                  reference_ns, core
bye                                                   nothing; the process ends
===== =============================================== ================================================================

A batch whose detail is null is not recorded. Everything else is done alike: hooks that come and go make the
interpreter adapt its instructions anew, so that each batch comes after some launches that are not timed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from kernelscope.studies.bench import machine
from kernelscope.studies.bench.framework import Framework, find
from kernelscope.studies.bench.machine import Quiet
from kernelscope.studies.bench.timed import TimedCase, freeze_garbage

#: Launches after a hook has come or gone, before any is timed.
WARM_UP = 120

_SETUP = """\
@cuda.jit
def kernel({names}):
    pass
{names}{equal}{arrays}
held = kernel[1, 1]
"""


class Calibrator:
    """What answers: the framework, and the cases by number of arguments."""

    def __init__(self) -> None:
        self._framework: Framework | None = None
        self._quiet = Quiet(None)
        self._cases: dict[int, tuple[TimedCase, TimedCase, list[int]]] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what a request asks for, and return what is ready for JSON."""
        known: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "hello": self.hello, "batch": self.batch, "bye": lambda _: {}}
        try:
            return {"ok": True, **known[request["do"]](request)}
        except Exception as error:
            text = str(error) if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}"
            return {"ok": False, "kind": "error", "error": " ".join(text.split())}

    def hello(self, request: dict[str, Any]) -> dict[str, Any]:
        """Find numba-cuda and the GPU."""
        self._framework = found = find("numba-cuda", request.get("dryrun"), request.get("library"))
        cores, _ = machine.may_pin(request.get("pin"))
        self._quiet = Quiet(cores)
        return {"gpu": None if found.is_dry_run else str(machine.gpu(False).get("name") or "unknown"),
                "is_dry_run": found.is_dry_run, "best_ns": self._quiet.best_ns()}

    def batch(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time launches together, and as many one by one, with a recorder of its own or none."""
        together, alone, singles = self._case(int(request["arguments"]))
        moved = self._quiet.seek(request.get("core"), request.get("quiet_ns"))
        launches = int(request["launches"])
        with _recording(request["detail"]):
            together.batch(WARM_UP)
            whole = together.batch(launches, moved)
            singles.clear()
            single = alone.batch(launches)
            times = singles[-launches:]  # those before are the batch's own warm-up
        together.batch(WARM_UP)
        return {"host_ns": whole.host_ns, "singles": times, "core": self._quiet.core,
                "reference_ns": max(whole.reference_ns, single.reference_ns)}

    def _case(self, arguments: int) -> tuple[TimedCase, TimedCase, list[int]]:
        if arguments not in self._cases:
            if self._framework is None:
                raise RuntimeError("no framework yet: the first request must be a hello that goes well")
            singles: list[int] = []
            names = ", ".join(f"a{place}" for place in range(arguments))
            setup = _SETUP.format(names=names, equal=" = " if names else "", arrays=", ".join(
                ["cuda.device_array(64, np.float32)"] * arguments) + ("," if arguments == 1 else ""))
            known = {**self._framework.names(), "clock": time.perf_counter_ns, "add": singles.append}
            together, alone = (
                TimedCase({"name": f"{arguments} arguments, {how}", "setup": setup, "statement": statement}, known,
                          self._framework.synchronize)
                for how, statement in (("together", f"held({names})"),
                                       ("one by one", f"start = clock(); held({names}); add(clock() - start)")))
            for case in (together, alone):
                case.set_up()
                case.batch(WARM_UP)  # compiles
            # What a first recording imports and leaves would be walked before each batch.
            with _recording("phases"):
                together.batch(1)
            freeze_garbage()
            self._cases[arguments] = together, alone, singles
        return self._cases[arguments]


@contextlib.contextmanager
def _recording(detail: str | None) -> Any:
    if detail is None:
        yield
        return
    from kernelscope.recorder.recorder import Recorder

    recorder = Recorder("calibration", detail=detail, gpu="none").start()
    try:
        yield
    finally:
        recorder.stop()
    if not len(recorder.recording.launches):
        told = "; ".join(str(row["message"]) for row in recorder.recording.rows("health") if row["message"])
        raise RuntimeError(f"launches are not recorded here: {told or 'none was seen'}")


def main(requests: int, answers: int) -> None:
    """Answer requests, from one file descriptor to another, until the pipe is closed or says bye."""
    faulthandler.enable()
    for descriptor in (requests, answers):
        os.set_inheritable(descriptor, False)
    calibrator = Calibrator()
    with open(requests, encoding="utf-8") as lines, open(answers, "w", encoding="utf-8") as replies:
        for line in itertools.takewhile(lambda line: '"bye"' not in line, lines):
            try:
                replies.write(json.dumps(calibrator.answer(json.loads(line))) + "\n")
                replies.flush()
            except BrokenPipeError:
                break
    os._exit(0)  # no teardown: a crash in it would look like one of the measurement


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
