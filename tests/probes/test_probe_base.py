"""Patches that undo exactly, imports that are waited for, tracebacks without our frames."""

from __future__ import annotations

import functools
import inspect
import sys
import textwrap
from types import FunctionType

import pytest

from kernelscope.probes.base import (
    ImportFinder,
    ImportHook,
    Patches,
    copy_function,
    remove_pass_throughs,
    without_frames,
)


class Owner:
    def method(self):
        return "original"

    def with_default(self, value=1):
        return value

    builtin = len


class Heir(Owner):
    pass


def closed_over(value):
    """A function with a closure: it cannot lend or take code."""
    def method(self):
        return value

    return method


def test_a_plain_function_keeps_its_identity_and_gets_its_code_back():
    function = vars(Owner)["method"]
    held, before = Owner().method, function.__code__
    patches = Patches()
    assert patches.hook(Owner, "method", lambda original: lambda self: "hooked") is function
    assert Owner().method() == held() == "hooked"
    assert vars(Owner)["method"] is function
    assert patches.undo() == []
    assert held() == "original"
    assert function.__code__ is before
    assert function.__kwdefaults__ is None


def test_the_original_goes_on_working_inside_the_hook():
    patches = Patches()
    patches.hook(Owner, "with_default", lambda original: lambda self, *args: ("hooked", original(self, *args)))
    try:
        assert Owner().with_default() == ("hooked", 1)
        assert Owner().with_default(5) == ("hooked", 5)
    finally:
        patches.undo()
    assert Owner().with_default() == 1


def test_a_class_is_not_changed_by_a_hook():
    """A class that changes loses the interpreter's attribute caches, for good after 1,000 changes."""
    changes = []

    class Watching(type):
        def __setattr__(cls, name, value):
            changes.append(name)
            super().__setattr__(name, value)

    class Watched(metaclass=Watching):
        def method(self):
            return "original"

    patches = Patches()
    patches.hook(Watched, "method", lambda original: lambda self: "hooked")
    patches.undo()
    assert changes == []


def test_what_is_no_plain_function_is_replaced_and_restored():
    original = vars(Owner)["builtin"]
    patches = Patches()
    assert patches.hook(Owner, "builtin", lambda original: closed_over("hooked")) is None
    assert Owner().builtin() == "hooked"
    assert patches.undo() == []
    assert vars(Owner)["builtin"] is original


def test_a_replaced_attribute_that_another_covers_is_left():
    patches = Patches()
    original = vars(Owner)["builtin"]
    patches.hook(Owner, "builtin", lambda original: closed_over("hooked"))
    Owner.builtin = foreign = closed_over("foreign")
    try:
        assert patches.undo() == ["Owner.builtin"]
        assert vars(Owner)["builtin"] is foreign
    finally:
        Owner.builtin = original


def test_a_replacement_that_is_put_back_later_is_taken_out_before_the_next():
    original = vars(Owner)["builtin"]
    held = []
    try:
        for _ in range(3):
            patches = Patches()
            patches.hook(Owner, "builtin", lambda original: closed_over("hooked"))
            held.append(vars(Owner)["builtin"])
            Owner.builtin = functools.wraps(held[-1])(closed_over("foreign"))
            foreign = vars(Owner)["builtin"]
            remove_pass_throughs()
            assert vars(Owner)["builtin"] is foreign, "it is the user's"
            patches.undo()
            remove_pass_throughs()
            assert vars(Owner)["builtin"] is foreign
            Owner.builtin = held[-1]
            remove_pass_throughs()
            assert vars(Owner)["builtin"] is original
        Owner.builtin = held[0]
        patches = Patches()
        patches.hook(Owner, "builtin", lambda original: closed_over("hooked"))
        ours = vars(Owner)["builtin"]
        remove_pass_throughs()
        assert vars(Owner)["builtin"] is ours, "its recording goes on"
        patches.undo()
        remove_pass_throughs()
        assert vars(Owner)["builtin"] is original
    finally:
        Owner.builtin = original


def test_a_wrapper_over_a_hooked_function_is_left_alone():
    original = vars(Owner)["method"]
    patches = Patches()
    patches.hook(Owner, "method", lambda original: lambda self: "hooked")
    Owner.method = lambda self: ("foreign", original(self))
    try:
        assert Owner().method() == ("foreign", "hooked")
        patches.undo()
        assert Owner().method() == ("foreign", "original")
    finally:
        Owner.method = original


def test_an_inherited_name_is_refused():
    with pytest.raises(AttributeError, match="of its own"):
        Patches().hook(Heir, "method", lambda original: original)
    assert "method" not in vars(Heir)


def test_hooks_over_hooks_are_undone_in_reverse():
    patches, others = Patches(), Patches()
    patches.hook(Owner, "method", lambda original: lambda self: ("first", original(self)))
    others.hook(Owner, "method", lambda original: lambda self: ("second", original(self)))
    assert Owner().method() == ("second", ("first", "original"))
    others.undo()
    patches.undo()
    assert Owner().method() == "original"


def test_hooks_pass_keywords_and_exceptions():
    def failing(original):
        calls = []

        def hook(self, *args, **kwargs):
            calls.append(kwargs)
            return original(self, *args, **kwargs)

        return hook

    patches = Patches()
    patches.hook(Owner, "with_default", failing)
    try:
        assert Owner().with_default(value=7) == 7
        with pytest.raises(TypeError, match="unexpected keyword"):
            Owner().with_default(other=7)
    finally:
        patches.undo()


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
    assert not [finder for finder in sys.meta_path if isinstance(finder, ImportFinder)]
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


def test_a_failing_import_has_the_traceback_that_it_has_without_us(tmp_path, monkeypatch):
    (tmp_path / "kernelscope_broken.py").write_text("def fail():\n    raise LookupError('users')\n\nfail()\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen, found = [], []
    hook = ImportHook("kernelscope_broken", seen.append)
    for arm in (lambda: None, hook.arm):
        arm()
        with pytest.raises(LookupError) as caught:
            import kernelscope_broken  # noqa: F401
        found.append([(entry.name, entry.lineno) for entry in caught.traceback])
    hook.disarm()
    assert found[0] == found[1]
    assert [name for name, _ in found[0]][1:] == ["<module>", "fail"]
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


def any_arguments(*args, _ks_original, **kwargs):
    return "lent", _ks_original(*args, **kwargs)


def of_any_arguments(original):
    hook = FunctionType(any_arguments.__code__, {})
    hook.__kwdefaults__ = {"_ks_original": original}
    return hook


def test_lent_code_leaves_the_function_its_signature_and_its_defaults():
    def add(a, /, b=2, *, c=3):
        return a + b + c

    before = (add.__code__, add.__defaults__, add.__kwdefaults__, dict(vars(add)), inspect.signature(add))
    patches = Patches()
    patches.lend(add, of_any_arguments(copy_function(add)))
    assert add(1) == ("lent", 6) and add(1, 1, c=1) == ("lent", 3)
    assert inspect.signature(add) == before[-1]
    with pytest.raises(TypeError):
        add()
    patches.undo()
    assert (add.__code__, add.__defaults__, add.__kwdefaults__, dict(vars(add)), inspect.signature(add)) == before
    assert add(1) == 6


def test_lent_code_for_a_function_with_a_closure():
    function = closed_over("theirs")
    hook_maker = closed_over("ours")
    original = copy_function(function)
    patches = Patches()
    patches.lend(function, hook_maker)
    assert function(None) == "theirs"  # the code's free variable is the function's own
    patches.undo()
    replaced = copy_function(function, hook_maker.__closure__)
    assert (function(None), original(None), replaced(None)) == ("theirs", "theirs", "ours")


def test_lent_code_of_two_is_undone_in_reverse():
    def one():
        return 1

    first, second = Patches(), Patches()
    first.lend(one, of_any_arguments(copy_function(one)))
    second.lend(one, of_any_arguments(copy_function(one)))
    assert one() == ("lent", ("lent", 1))
    second.undo()
    assert one() == ("lent", 1)
    first.undo()
    assert one() == 1 and not vars(one)
