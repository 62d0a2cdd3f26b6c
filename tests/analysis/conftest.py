"""Recordings made by hand, for the tests of the analysis."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import Script, many_launches


@pytest.fixture
def script() -> type[Script]:
    return Script


@pytest.fixture
def many() -> Any:
    return many_launches
