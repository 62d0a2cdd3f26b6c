"""What is called before a signal ends the process, and that it ends by that signal all the same."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

BEGIN = """
import ctypes, os, signal, sys, threading, time
from kernelscope.native import core

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who started the tests may have ignored it

def called(number):
    time.sleep(0.1)
    print("called", number, flush=True)

core.before_end(called, 30.0)
assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
"""
TERM = "os.kill(os.getpid(), signal.SIGTERM)\n"


@pytest.mark.parametrize(("code", "said", "ended"), [
    (TERM + "time.sleep(60)", ["called 15"], -signal.SIGTERM),
    # The program ends meanwhile: what is registered for its end has done all that was to be done.
    ("import atexit; atexit.register(core.before_end, None, 0)\n" + TERM, None, -signal.SIGTERM),
    (TERM + TERM + "time.sleep(60)", ["called 15"], -signal.SIGTERM),
    ("os.kill(os.getpid(), signal.SIGHUP); time.sleep(60)", ["called 1"], -signal.SIGHUP),
    # The main thread does not come back to Python.
    (f"threading.Timer(0.1, lambda: {TERM.strip()}).start()\nwhile True: ctypes.CDLL(None).pause()", ["called 15"],
     -signal.SIGTERM),
    # A call that waits for what has the interpreter's lock for ever.
    ("core.before_end(called, 0.2)\nif not os.fork():\n    time.sleep(0.2); os.kill(os.getppid(), 15); os._exit(0)\n"
     "lock = ctypes.PyDLL(None)\nwhile lock.usleep(100_000) or True: lock.usleep(60_000_000)", None, -signal.SIGTERM),
    # The user's own.
    ("signal.signal(15, lambda *_: (print('own', flush=True), sys.exit(3)))\n" + TERM + "time.sleep(60)", ["own"], 3),
    ("core.before_end(None, 0)\n" + TERM + "time.sleep(60)", [], -signal.SIGTERM),
    ("core.before_end(None, 0)\ncore.before_end(called, 30.0)\n" + TERM + "time.sleep(60)", ["called 15"],
     -signal.SIGTERM),
    # A fork's child ends at once, unless it asks for itself.
    ("child = os.fork()\nif not child: time.sleep(60)\nos.kill(child, 15); print(os.waitpid(child, 0)[1])", ["15"], 0),
    ("child = os.fork()\nif not child:\n    core.before_end(called, 30.0)\n    " + TERM + "    time.sleep(60)\n"
     "print(os.waitpid(child, 0)[1])", ["called 15", "15"], 0),
])
def test_signals(code: str, said: list[str] | None, ended: int) -> None:
    # Python 3.12 and newer warn of a fork where there is another thread, as the one that waits for signals.
    ran = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", BEGIN + code], capture_output=True,
                         text=True, timeout=600, check=False)
    assert (ran.returncode, ran.stderr) == (ended, "")
    assert said is None or ran.stdout.split("\n")[:-1] == said


@pytest.mark.parametrize("ignored", ["SIGTERM", "SIGHUP"])
def test_ignored_signals_stay_ignored(ignored: str) -> None:
    code = (f"import os, signal; signal.signal(signal.{ignored}, signal.SIG_IGN)\n"
            "from kernelscope.native import core; core.before_end(print, 30.0)\n"
            f"os.kill(os.getpid(), signal.{ignored}); print(signal.getsignal(signal.{ignored}).name)")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert ran.stdout == "SIG_IGN\n"
