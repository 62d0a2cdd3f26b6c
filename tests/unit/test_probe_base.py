"""Patches that undo exactly, imports that are waited for, tracebacks without our frames."""

from __future__ import annotations

import sys
import textwrap
from types import SimpleNamespace

import pytest

from kernelscope.probes.base import ImportHook, Patches, without_frames


class Owner:
    def method(self):
        return "original"


class Heir(Owner):
    pass


def test_patches_restore_the_very_object():
    original = vars(Owner)["method"]
    patches = Patches()
    patches.replace(Owner, "method", lambda self: "patched")
    assert Owner().method() == "patched"
    assert patches.undo() == []
    assert vars(Owner)["method"] is original


def test_patches_leave_what_another_has_replaced():
    original = vars(Owner)["method"]
    patches = Patches()
    patches.replace(Owner, "method", lambda self: "patched")
    Owner.method = foreign = lambda self: "foreign"
    try:
        assert patches.undo() == ["Owner.method"]
        assert vars(Owner)["method"] is foreign
    finally:
        Owner.method = original


def test_patches_do_not_shadow_an_inherited_name():
    with pytest.raises(AttributeError, match="of its own"):
        Patches().replace(Heir, "method", None)
    assert "method" not in vars(Heir)


def test_patches_undo_two_layers_in_reverse():
    target = SimpleNamespace(value=1)
    patches = Patches()
    patches.replace(target, "value", 2)
    patches.replace(target, "value", 3)
    patches.undo()
    assert target.value == 1


@pytest.fixture
def late_module(tmp_path, monkeypatch):
    (tmp_path / "kernelscope_late.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "kernelscope_late"
    sys.modules.pop("kernelscope_late", None)


def test_import_hook_calls_back_after_the_module_has_run(late_module):
    seen = []
    hook = ImportHook(late_module, lambda module: seen.append(module.VALUE))
    hook.arm()
    assert seen == []
    import kernelscope_late

    assert seen == [1]
    assert hook not in sys.meta_path
    assert type(kernelscope_late.__loader__).__module__ != "kernelscope.probes.base"
    assert kernelscope_late.__spec__.loader is kernelscope_late.__loader__


def test_import_hook_calls_back_at_once_for_what_is_there():
    seen = []
    ImportHook("textwrap", seen.append).arm()
    assert seen == [textwrap]


def test_import_hook_disarmed_never_calls(late_module):
    seen = []
    hook = ImportHook(late_module, seen.append)
    hook.arm()
    hook.disarm()
    hook.disarm()
    __import__(late_module)
    assert seen == []


def test_import_hook_passes_a_failing_import_on(tmp_path, monkeypatch):
    (tmp_path / "kernelscope_broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    hook = ImportHook("kernelscope_broken", seen.append)
    hook.arm()
    with pytest.raises(ZeroDivisionError):
        __import__("kernelscope_broken")
    hook.disarm()
    assert seen == []


def test_without_frames_drops_only_the_hidden_ones():
    def ours():
        return theirs()

    def theirs():
        return ours_too()

    def ours_too():
        raise ValueError("theirs")

    hidden = frozenset({ours.__code__, ours_too.__code__})
    try:
        ours()
    except ValueError as error:
        entry = without_frames(error.__traceback__, hidden)
    names = []
    while entry is not None:
        names.append(entry.tb_frame.f_code.co_name)
        entry = entry.tb_next
    assert names == ["test_without_frames_drops_only_the_hidden_ones", "theirs"]
