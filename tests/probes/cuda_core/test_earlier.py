"""Captures that began before the recording did: what goes into them is captured, and they are not harmed."""

from __future__ import annotations

import pandas as pd
import pytest
from cuda.core.graph import GraphBuilder

import kernelscope
from kernelscope.probes.cuda_core.graphs import EarlierCaptures
from kernelscope.probes.cuda_core.read import Driver


@pytest.fixture
def builder(device):
    return device.create_graph_builder().begin_building()


def counts(recording):
    """Launches that ran, launches that were captured, and launches of graphs."""
    captured = int(recording.launches.capture_event_id.notna().sum())
    return len(recording.launches) - captured, captured, int((recording.table("graph_events").kind == "launch").sum())


def test_a_capture_from_before_any_recording(builder, k, arrays, stream):
    k.axpy[1, 32, builder.stream](arrays[0], 3)
    with kernelscope.record() as first:
        k.axpy[1, 32, builder.stream](arrays[0], 3)
    with kernelscope.record() as second:
        k.fill[1, 32, builder.stream](arrays[0])
        k.fill[1, 32](arrays[0])
        builder.end_building()
        graph = builder.complete()
        k.fill[1, 32, stream](arrays[0])
        graph.launch(stream)
    assert counts(first.recording) == (0, 1, 0)
    assert counts(second.recording) == (2, 1, 1)
    events = second.recording.table("graph_events")
    assert events.kind.tolist() == ["capture", "instantiate", "launch"]
    captured, made, _ = events.itertuples()
    assert captured.start_ns is pd.NA and captured.end_ns < made.start_ns
    assert made.source_event_id == captured.graph_event_id and captured.graph_id == made.graph_id == 0
    assert second.recording.table("graphs").nodes.tolist() == [3]
    # Which of three equal nodes it became cannot be told where the first launches are not known.
    assert second.recording.launches.graph_node_id.isna().all()
    for recording in (first.recording, second.recording):
        assert not recording.health.errors.fillna(0).any()
        assert "1 captured" in recording.summary()
        assert recording._repr_html_()


def test_a_capture_that_another_recording_left_open_is_not_harmed(device, k, arrays, stream):
    with kernelscope.record():
        builder = device.create_graph_builder().begin_building()
        k.axpy[1, 32, builder.stream](arrays[0], 3)
    with kernelscope.record() as between:
        k.fill[1, 32](arrays[0])  # waiting for the device would break the capture
    with kernelscope.record() as last:
        k.fill[1, 32, builder.stream](arrays[0])
        builder.end_building().complete().launch(stream)
    assert counts(between.recording) == (1, 0, 0)
    assert between.recording.health.message.str.contains("would break the capture").any()
    assert counts(last.recording) == (0, 1, 1)
    assert not last.recording.health.message.str.contains("would break the capture").any()


def test_streams_that_had_joined(builder, k, arrays):
    left, right = builder.split(2)
    with kernelscope.record() as recorder:
        k.axpy[1, 32, left.stream](arrays[0], 3)
        k.fill[1, 32, right.stream](arrays[0])
        GraphBuilder.join(left, right).end_building().complete()
        k.fill[1, 32](arrays[0])
    assert counts(recorder.recording) == (1, 2, 0)


def test_a_part_of_a_session_has_the_capture_too(builder, k, arrays):
    with kernelscope.record():
        with kernelscope.record() as inner:
            k.axpy[1, 32, builder.stream](arrays[0], 3)
        builder.end_building()
    assert counts(inner.recording) == (0, 1, 0)


def test_what_has_ended_is_forgotten(builder):
    handle = int(builder.stream.handle)
    number = Driver().capture_of(handle)
    assert number is not None
    earlier = EarlierCaptures(Driver(), {number, -5})
    assert earlier.find([0, 1, 2]) == {} and earlier.left == {number, -5}
    assert earlier.find([handle], {number}) == {} and earlier.left == {-5}
    assert earlier.find([handle]) == {number: [handle]}
    builder.end_building()
    assert earlier.find([handle]) == {}


def test_streams_that_are_gone_are_never_asked_about(device, k, arrays, monkeypatch):
    asked = []
    original = Driver.capture_of
    monkeypatch.setattr(Driver, "capture_of", lambda self, stream, *more: asked.append(stream) or original(
        self, stream, *more))
    closed, kept = device.create_stream(), device.create_stream()
    gone, there = int(closed.handle), int(kept.handle)
    with kernelscope.record():
        k.fill[1, 32, closed](arrays[0])
        k.fill[1, 32, kept](arrays[0])
        closed.close()
    assert there in asked
    assert gone not in asked

