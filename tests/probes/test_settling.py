"""Looking something up in the middle of a user's launch, while signals come."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kernelscope.probes.base import ids, looked_up
from kernelscope.probes.sink import Sink


def interrupted(times: int) -> tuple[Callable[[], tuple[int, int]], list[KeyboardInterrupt]]:
    """A look-up in which a Ctrl-C comes so many times, and those that came."""
    raised: list[KeyboardInterrupt] = []

    def look() -> tuple[int, int]:
        if len(raised) < times:
            raised.append(KeyboardInterrupt())
            raise raised[-1]
        return 3, 4

    return look, raised


def test_a_ctrl_c_comes_up_and_what_was_looked_up_is_there() -> None:
    sink, (look, raised) = Sink(), interrupted(1)
    assert ids("probe", sink, look) == (3, 4, raised[0])
    assert not sink.dropped and not sink.errors


def test_with_a_second_one_the_user_gets_out() -> None:
    sink, (look, raised) = Sink(), interrupted(99)
    with pytest.raises(KeyboardInterrupt) as caught:
        ids("probe", sink, look)
    assert len(raised) == 2 and caught.value is raised[1]
    assert dict(sink.dropped) == {"probe": 1} and not sink.errors


def test_an_error_of_ours_is_counted_and_is_nothing_to_the_user() -> None:
    sink = Sink()
    assert looked_up("probe", sink, lambda: {}["missing"]) == (None, None)
    assert dict(sink.dropped) == {"probe": 1} and dict(sink.errors) == {"probe": 1}
