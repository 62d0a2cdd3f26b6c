"""A framework's tests run in an environment of its own only: `test_environments.py` makes it and runs them there."""

from __future__ import annotations

import os
from pathlib import Path

from environments import INSIDE

collect_ignore = [] if os.environ.get(INSIDE) else [
    path.name for path in Path(__file__).parent.iterdir() if path.is_dir()]
