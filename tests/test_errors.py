from __future__ import annotations

import inspect

import pytest

import kernelscope
from kernelscope import errors

ERRORS = [value for _, value in inspect.getmembers(errors, inspect.isclass) if value.__module__ == errors.__name__]


def test_every_error_has_one_base() -> None:
    assert len(ERRORS) >= 6
    for error in ERRORS:
        assert issubclass(error, kernelscope.KernelScopeError)
        # Not one that a user's own code raises: an `except` of one must not catch the other.
        assert not issubclass(error, ValueError | TypeError | OSError | RuntimeError | LookupError)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_error_is_public_documented_and_says_its_message(error: type[Exception]) -> None:
    assert getattr(kernelscope, error.__name__) is error
    assert error.__name__ in kernelscope.__all__
    assert error.__doc__
    assert str(error("griddim (0, 1, 1) has a zero")) == "griddim (0, 1, 1) has a zero"
