"""The flame graph as its front end takes it: a deflated JSON object of columns."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from kernelscope.features.call_paths.flame import KINDS, LABELS, MEANINGS, Flame, flame_of
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.views.widget import deflated


def pack(flame: Flame) -> bytes:
    """Return the flame graph as a raw deflate stream of JSON; `frontend/flame/wire.ts` has its types."""
    up = np.arange(len(flame.parent)) - flame.parent
    columns: dict[str, Any] = {
        "metrics": [[name, LABELS[name], MEANINGS[name]] for name in flame.metrics],
        "kinds": {"all": "all", **KINDS},
        "frames": [[each.name, each.place, each.kind, each.code] for each in flame.frames],
        "up": up[1:].tolist(), "frame": flame.frame.tolist(),
        "own": {name: flame.own[name].tolist() for name in flame.metrics},
        "phases": {name: values.tolist() for name, values in flame.phases.items()},
        "remark": flame.remark,
    }
    return deflated(json.dumps(columns, separators=(",", ":"), ensure_ascii=False).encode(), level=9)


def page_data(recording: Recording) -> str:
    """Return the packed flame graph as base64, an empty text where there is none: see `kernelscope.views.live`."""
    flame = flame_of(shareable(recording))
    return "" if flame is None else base64.b64encode(pack(flame)).decode("ascii")
