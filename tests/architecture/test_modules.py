"""Public names: each is there, and has a place in the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kernelscope

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def test_public_names_are_importable_and_documented() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
    documented = set(re.findall(r"^\.\. auto(?:class|function|exception):: kernelscope\.(\w+)$", text, re.MULTILINE))
    assert set(kernelscope.__all__) <= documented | {"__version__"}
    assert all(getattr(kernelscope, name) is not None for name in kernelscope.__all__)


def test_public_names_are_listed() -> None:
    assert set(kernelscope.__all__) <= set(dir(kernelscope))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kernelscope.nothing
