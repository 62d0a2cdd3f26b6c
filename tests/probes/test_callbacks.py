"""Callbacks of C that leave an exception alone which is on its way to the user."""

from __future__ import annotations

import ctypes
import threading

import pytest

from kernelscope.probes.callbacks import guarded

Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)


def call_with_exception(callback):
    """Have C call back while an exception is set, as a destructor in C++ does."""
    destructor = ctypes.CFUNCTYPE(None, ctypes.py_object)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule = [new(1, None, ctypes.cast(callback, ctypes.c_void_p))]
    assert destructor

    def drop():
        # The capsule dies while `KeyError` unwinds this frame: the interpreter has the exception set then.
        held = capsule.pop()
        raise KeyError(type(held).__name__)

    drop()


def test_arguments_arrive():
    seen = []
    guard = guarded(Callback(lambda *arguments: seen.append(arguments)))
    guard(1 << 40, -2, 0xFFFFFFFF, 4)
    assert seen == [(1 << 40, -2, 0xFFFFFFFF, 4)]


def test_an_exception_that_is_set_stays():
    seen = []
    guard = guarded(Callback(lambda *_: seen.append(ctypes.string_at(b"whole"))))
    set_object = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_void_p)
    kind = ctypes.pythonapi.PyErr_SetString
    kind.argtypes, kind.restype = (ctypes.py_object, ctypes.c_char_p), None
    assert set_object
    with pytest.raises(KeyError, match="PyCapsule"):
        call_with_exception(guard)
    assert seen == [b"whole"]


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
    import sys

    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: reported.append(each.exc_type))
    guarded(ctypes.CFUNCTYPE(None)(lambda: 1 / 0))()
    assert reported == [ZeroDivisionError]
