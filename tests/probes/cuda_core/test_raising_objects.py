"""Objects whose every special method raises, passed to ``cuda.core.launch``: it is as without a recording."""

from __future__ import annotations

from typing import Any

import cuda.core
import numpy as np
import pytest
from cuda.core import LaunchConfig
from raising import RAISING, Anything, same_outcome


@pytest.mark.parametrize("place", ["stream", "configuration", "kernel", "argument"])
@pytest.mark.parametrize("kind", RAISING)
def test_what_is_passed(kind: str, place: str, scale: Any, stream: Any) -> None:
    configuration = LaunchConfig(grid=1, block=32)

    def launch() -> None:
        given = {"stream": stream, "configuration": configuration, "kernel": scale, "argument": np.intp(0)}
        given[place] = RAISING[kind]()
        cuda.core.launch(*given.values(), np.float32(1), np.int32(0))

    same_outcome(launch)


def test_a_stream_of_the_users(scale: Any, stream: Any) -> None:
    protocol = {"__cuda_stream__": lambda _: (0, int(stream.handle)),
                "__getattr__": lambda _, name: object.__getattribute__(_, name)}
    given = type("Foreign", (Anything,), protocol)()
    recording = same_outcome(lambda: cuda.core.launch(
        given, LaunchConfig(grid=1, block=32), scale, np.intp(0), np.float32(1), np.int32(0)))
    names = recording.launches.dispatcher_id.map(recording.dispatchers.name)
    assert names.tolist().count("scale") == 2
    assert recording.configurations.stream.tolist()[0] == int(stream.handle)
