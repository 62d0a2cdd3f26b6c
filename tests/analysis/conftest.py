"""A recording to be made by hand, for the tests of the analysis."""

from __future__ import annotations

import pytest
from handmade import Script


@pytest.fixture
def made() -> Script:
    """Return an empty one."""
    return Script()
