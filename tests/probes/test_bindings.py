"""Functions that are replaced wherever they are bound: what one recording leaves alone, another one may not."""

import sys
from types import ModuleType

import pytest

from kernelscope import native
from kernelscope.probes import base
from kernelscope.probes.base import Bindings


@pytest.fixture
def modules(monkeypatch):
    def function():
        return "the function"

    made = [ModuleType(name) for name in ("kept_here", "bound_there")]
    for module in made:
        module.function = function
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return made


def test_a_namespace_that_was_left_alone_once_gets_the_hook_of_the_next_recording(modules):
    kept, bound = modules
    function = kept.function

    def hooked(keeps):
        def hook():
            return "the hook"

        bindings = Bindings(vars(kept), "function", lambda _: hook, lambda names: names.get("__name__") in keeps)
        bindings.put()
        try:
            return kept.function(), bound.function()
        finally:
            bindings.take_back()
            assert kept.function is bound.function is function

    assert hooked({"kept_here"}) == ("the function", "the hook")
    assert hooked(set()) == ("the hook", "the hook")
    assert hooked({"kept_here"}) == ("the function", "the hook")
    assert hooked({"kept_here", "bound_there"}) == ("the function", "the function")
    assert hooked(set()) == ("the hook", "the hook")


def test_a_native_hook_that_nobody_else_took_is_taken_back_without_a_search(modules, monkeypatch):
    from kernelscope.native.log import LaunchLog

    bound, held = modules[1], (modules[1].function,)  # a name in a closure would be bound to the hook too
    bindings = Bindings(vars(bound), "function", lambda given: LaunchLog().hook("core", given, print, print, 4))
    bindings.put()
    assert type(bound.function) is native.core.Hook
    monkeypatch.setattr(base, "_search", lambda _: pytest.fail("it looked at every object of the process"))
    bindings.take_back()
    assert bound.function is held[0]


def test_what_modules_alone_hold_by_its_name_is_found_without_a_search(modules, monkeypatch):
    kept, bound = modules
    searches = []
    search = base._search
    monkeypatch.setattr(base, "_search", lambda function: searches.append(function) or search(function))

    def hook():
        return "the hook"

    def calls():
        bindings = Bindings(vars(kept), "function", lambda _: hook)
        bindings.put()
        try:
            return kept.function(), bound.function()
        finally:
            bindings.take_back()
            base._remembered.clear()

    assert calls() == ("the hook", "the hook") and not searches
    bound.other = bound.function  # by another name
    assert calls() == ("the hook", "the hook") and len(searches) == 1
    assert bound.other is bound.function
    del bound.other

    def holds(function=kept.function):
        return lambda: function()

    assert holds()() == "the function"
    assert calls() == ("the hook", "the hook") and len(searches) == 2
