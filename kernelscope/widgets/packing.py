"""`pack`: a recording as the timeline's front end takes it, a small header and one stream of deflated columns.

The header is JSON: where the columns are and how they are coded, the lanes and their tracks, and what the page says.
The payload is one raw deflate stream: columns of integers (see `kernelscope.widgets.packing_columns`), and at its end
a JSON object with the texts and the small tables. Times are nanoseconds since ``t0_ns``, the recording's first
instant: exact in JavaScript's numbers up to 52 days.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kernelscope.recording.model import Recording
from kernelscope.widgets.packing_columns import Columns
from kernelscope.widgets.packing_facts import facts, title
from kernelscope.widgets.packing_lanes import Lanes
from kernelscope.widgets.packing_tables import Builder

#: Raised whenever the front end must read something differently.
FORMAT = 1


@dataclass(frozen=True)
class Packed:
    """A recording on the wire.

    Attributes
    ----------
    header : dict
        JSON values only.
    payload : bytes
        Raw deflate.
    """

    header: dict[str, Any]
    payload: bytes

    @property
    def size(self) -> int:
        """Bytes of both."""
        return len(self.payload) + len(json.dumps(self.header, separators=(",", ":")))

    @property
    def events(self) -> int:
        """How many things are drawn."""
        return sum(int(table["rows"]) for table in self.header["tables"].values())


def pack(recording: Recording) -> Packed:
    """Return what the timeline draws of a recording.

    Every launch, activity, API call, compile, pass with a start, range and cell is in it, with its times exact to the
    nanosecond. What has no time at all cannot be drawn, and is counted in ``header["undrawn"]``; what was left out of a
    large recording is named in ``header["left_out"]``.
    """
    columns, lanes = Columns(), Lanes()
    builder = Builder(recording, columns, lanes)
    builder.build()
    texts = json.dumps(builder.texts | facts(recording), ensure_ascii=False, separators=(",", ":"))
    columns.add_text(texts)
    header: dict[str, Any] = {
        "format": FORMAT,
        "title": title(recording),
        "notice": recording.notice,
        "t0_ns": str(builder.clock.first),
        "span_ns": builder.clock.span,
        "bytes": columns.size,
        "inflated": columns.whole_size,
        "tables": {
            name: {"rows": len(next(iter(columns.values[name].values()))), "columns": specs}
            for name, specs in columns.specs.items()
        },
        "lanes": lanes.ordered(),
        "undrawn": builder.undrawn,
        "left_out": builder.left_out,
    }
    return Packed(header, columns.deflate())
