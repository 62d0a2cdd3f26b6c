"""Callbacks of C that leave an exception alone which is on its way to the user."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading

import pytest

from kernelscope.dryrun.build import find_compiler
from kernelscope.probes.driver import guarded

Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)
_DESTRUCTOR = """
#include <stdint.h>

/* Raises, and calls back as a library does whose destructors call the driver; with or without Python's lock. */
void raise_and_call(void (*raise)(void *, const char *), void *type, void *(*release)(void), void (*take)(void *),
                    void (*callback)(void *, int, uint32_t, void *), int held)
{
    raise(type, "mine");
    void *state = held ? 0 : release();
    callback((void *)1, 2, 3, (void *)4);
    if (!held) take(state);
}
"""


@pytest.fixture(scope="module")
def raise_and_call(tmp_path_factory):
    folder = tmp_path_factory.mktemp("destructor")
    (folder / "destructor.c").write_text(_DESTRUCTOR)
    subprocess.run([*find_compiler(), "-shared", "-fPIC", str(folder / "destructor.c"), "-o",
                    str(folder / "destructor.so")], check=True)
    function = ctypes.PyDLL(str(folder / "destructor.so")).raise_and_call
    function.argtypes = (ctypes.c_void_p, ctypes.py_object, *[ctypes.c_void_p] * 3, ctypes.c_int)
    function.restype = None
    python = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p)
              for name in ("PyErr_SetString", "PyEval_SaveThread", "PyEval_RestoreThread")]
    return lambda callback, held: function(
        python[0], KeyError, python[1], python[2], ctypes.cast(callback, ctypes.c_void_p), held)


def test_arguments_arrive():
    seen = []
    guard = guarded(Callback(lambda *arguments: seen.append(arguments)))
    guard(1 << 40, -2, 0xFFFFFFFF, 4)
    assert seen == [(1 << 40, -2, 0xFFFFFFFF, 4)]


def read() -> int:
    """As callbacks look at what they are given; it fails where an exception is set already."""
    return ctypes.c_int.from_address(ctypes.addressof(_number)).value


_number = ctypes.c_int(7)


@pytest.mark.parametrize("held", [True, False])
def test_an_exception_that_is_set_stays(raise_and_call, held):
    seen = []
    guard = guarded(Callback(lambda *_: seen.append(read())))
    with pytest.raises(KeyError, match="mine"):
        raise_and_call(guard, held)
    assert seen == [7]


def test_from_a_thread_that_python_does_not_know():
    seen = []
    guard = guarded(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: seen.append(threading.get_ident())))
    library = ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    assert library.pthread_create(ctypes.byref(thread), None, guard, None) == 0
    library.pthread_join(thread, None)
    assert len(seen) == 1
    assert seen[0] != threading.get_ident()


def test_what_the_callback_raises_is_pythons_to_report(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: reported.append(each.exc_type))
    guarded(ctypes.CFUNCTYPE(None)(lambda: 1 / 0))()
    assert reported == [ZeroDivisionError]
