"""Large graphs as groups of layers."""

# ruff: noqa: RUF001 - the sign of multiplication is meant
from __future__ import annotations

from drawn_graphs import chain, independent, tangle

from kernelscope.recording.model import Recording
from kernelscope.views.graph.layout import Band, drawing_of, group, mostly


def grouped(recording: Recording, most: int = 6) -> list[Band]:
    return group(drawing_of(recording), most)


def test_each_node_is_in_one_band() -> None:
    assert [(band.layers, len(band.numbers)) for band in grouped(chain(120))] == [(20, 20)] * 6
    assert [(band.layers, len(band.numbers)) for band in grouped(independent(500))] == [(1, 500)]
    for recording in (tangle(200), chain(100), chain(3)):
        made = grouped(recording)
        assert len(made) <= 6
        numbers = [number for band in made for number in band.numbers]
        assert sorted(numbers) == list(range(len(numbers)))


def test_times_add_up() -> None:
    recording = tangle(100)
    made = grouped(recording)
    assert sum(band.total_ns or 0 for band in made) == drawing_of(recording).graph.total_ns
    assert abs(sum(band.share or 0 for band in made) - 1) < 1e-9
    assert {(band.total_ns, band.share) for band in grouped(chain(50))} == {(None, None)}


def test_the_most_frequent_are_named() -> None:
    drawing = drawing_of(chain(7))
    assert mostly(drawing.graph, group(drawing, 1)[0]) == "axpy × 7"
