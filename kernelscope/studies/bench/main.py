"""The protocol: JSON objects, one a line, in over one pipe and out over another.

Requests have a key ``do``; each is answered by one object. A request that went well is answered with ``ok`` true and
what it asked for; one that did not with ``ok`` false, ``kind`` (``unavailable`` where a target cannot have what was
asked for, else ``error``), ``error`` (one line) and ``traceback``.

========== ===================================================== =====================================================
do         asks with                                             answers with
========== ===================================================== =====================================================
hello      framework, dryrun, library, pin, kernelscope          framework, versions, module, gpu, is_dry_run,
                                                                 pinned_to, pin_error, clock_resolution_ns,
                                                                 clock_read_ns, sees_waits, python
prepare    case (the fields of `Case`), batch_ms                 loops, warm_batches, stable, ns_per_loop,
                                                                 sync_share, limited
batch      case (its name), loops, core, quiet_ns                host_ns, sync_ns, waited_ns, reference_ns, core
noise      ms, core                                              lost, reference_ns
anatomy    case (the fields of `Case`), and what `anatomy` takes what `anatomy` answers
bye                                                              nothing; the process ends
========== ===================================================== =====================================================

``hello`` comes first. Its fields are all optional: ``framework`` names one of the two where both are installed;
``dryrun`` is the folder that holds the package kernelscope, if the null driver is to take the place of CUDA's, and
``library`` the file of a null driver that is built already, so that the target needs neither compiler nor ``cuda.h``;
``pin`` is a list of processor cores; ``kernelscope`` is the folder of KernelScope for the cases that need it.

Of the cores of ``pin`` the process is on one at a time. ``core`` is where to begin and ``quiet_ns`` what the reference
of `quiet` may take there: else the process goes on to other cores, and answers on which one it was.

The process pins itself at the first request that is timed and not before: many processes may start, compile and warm up
side by side, on all cores, before one is timed at a time on one core.

Two processes of one version differ by some per cent. Neither a fixed hash seed nor a fixed layout of the address space
made them differ less (30 processes of each, medians of 15 batches: standard deviations of 1.0 to 1.7 % with and
without), and huge pages did not either. So nothing of that is fixed: it would choose one layout for all, and take what
differs by it for a difference of the versions.

It ends when the pipe of requests is closed, whatever the target has running.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import platform
import sys
import traceback
from collections.abc import Callable
from typing import Any

from . import machine
from .framework import Framework, find, offer_kernelscope
from .machine import Quiet
from .timed import CaseError, TimedCase, Unavailable, freeze_garbage, warm_up


class Bench:
    """What a benchmark process has: the framework, and the cases that are prepared."""

    def __init__(self) -> None:
        self.framework: Framework | None = None
        self.cases: dict[str, TimedCase] = {}
        self.quiet = Quiet(None)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what a request asks for.

        Returns
        -------
        dict
            The answer, ready for JSON. Whatever a target's code raises becomes one.
        """
        known: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "hello": self.hello, "prepare": self.prepare, "batch": self.batch, "noise": self.noise,
            "anatomy": self.anatomy, "bye": lambda _: {},
        }
        try:
            do = request.get("do")
            if do not in known:
                raise ValueError(f"a request to do {do!r} is not known; known: {', '.join(known)}")
            return {"ok": True, **known[do](request)}
        except Unavailable as error:
            return _refusal("unavailable", error)
        except BaseException as error:
            # Also SystemExit and what else a case may raise: it must not end the process without a word.
            return _refusal("error", error)

    def hello(self, request: dict[str, Any]) -> dict[str, Any]:
        """Find the framework and the GPU, and say what they are."""
        if request.get("kernelscope"):
            offer_kernelscope(request["kernelscope"])
        self.framework = found = find(request.get("framework"), request.get("dryrun"), request.get("library"))
        cores, pin_error = machine.may_pin(request.get("pin"))
        self.quiet = Quiet(cores)
        resolution_ns, read_ns = machine.clock()
        return {
            "framework": found.name, "versions": found.versions, "module": found.module,
            "gpu": machine.gpu(found.is_dry_run), "is_dry_run": found.is_dry_run, "pinned_to": cores,
            "pin_error": pin_error, "clock_resolution_ns": resolution_ns, "clock_read_ns": read_ns,
            "sees_waits": machine.counts_waits(), "python": platform.python_version(),
        }

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compile a case, warm it up, and find how many loops a batch takes."""
        case = self.case(request["case"])
        case.set_up()
        case.batch(1)  # compiles, and leaves what the collector would walk before each of the batches that follow
        freeze_garbage()
        warm = warm_up(case, float(request.get("batch_ms") or 10))
        self.cases[case.name] = case
        return warm._asdict()

    def batch(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time a batch of a case that was prepared."""
        name = request["case"]
        if name not in self.cases:
            raise ValueError(f"case {name!r} is not prepared; prepared: {', '.join(self.cases) or 'none'}")
        moved = self.quiet.seek(request.get("core"), request.get("quiet_ns"))
        return {**self.cases[name].batch(int(request["loops"]), moved)._asdict(), "core": self.quiet.core}

    def noise(self, request: dict[str, Any]) -> dict[str, Any]:
        """Measure which share of its time a loop that does nothing loses to others, and what one takes at best."""
        self.quiet.go(request.get("core"))
        return {"lost": machine.noise(float(request.get("ms") or 50)), "reference_ns": self.quiet.best_ns()}

    def anatomy(self, request: dict[str, Any]) -> dict[str, Any]:
        """Split one launch of a case into its parts."""
        from . import anatomy  # pyright: ignore  (written for this one verb, and not loaded without it)

        return anatomy.answer(self, request)

    def case(self, fields: dict[str, Any]) -> TimedCase:
        """Return a case of this target that is not set up yet.

        Raises
        ------
        RuntimeError
            If there was no ``hello``.
        Unavailable
            If the target lacks a module that the case needs.
        """
        if self.framework is None:
            raise RuntimeError("no framework yet: the first request must be a hello that goes well")
        return TimedCase(fields, self.framework.names(), self.framework.synchronize)


def main(requests: int, answers: int) -> None:
    """Answer requests until the pipe is closed or says bye.

    Parameters
    ----------
    requests, answers
        File descriptors of two pipes, which are this process' own from now on.
    """
    faulthandler.enable()  # a crash in native code says where, in the output that the study shows
    for descriptor in (requests, answers):
        os.set_inheritable(descriptor, False)
    bench = Bench()
    with open(requests, encoding="utf-8") as lines, open(answers, "w", encoding="utf-8") as replies:
        for line in lines:
            request = json.loads(line)
            try:
                replies.write(json.dumps(bench.answer(request)) + "\n")
                replies.flush()
            except BrokenPipeError:
                break
            if request.get("do") == "bye":
                break
    # No teardown: it takes longer than a batch, and a crash in it would look like one of the target's.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def _refusal(kind: str, error: BaseException) -> dict[str, Any]:
    cause = error.__cause__ if isinstance(error, CaseError) and error.__cause__ is not None else error
    lines = traceback.format_exception(type(cause), cause, cause.__traceback__)
    if isinstance(error, (CaseError, Unavailable, RuntimeError, ValueError)):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error}"
    return {"ok": False, "kind": kind, "error": " ".join(text.split()), "traceback": "".join(lines)}
