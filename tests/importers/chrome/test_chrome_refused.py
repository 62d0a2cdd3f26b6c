"""Traces in Chrome's JSON that are damaged, or made to harm, are refused with what and where."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from foreign_traces import event, launched, refused, write_json

import kernelscope
from kernelscope.importers.chrome import read


def text_file(path: Path, text: str | bytes) -> Path:
    target = path / "trace.json"
    target.write_bytes(text if isinstance(text, bytes) else text.encode())
    return target


@pytest.mark.parametrize(("text", "message"), [
    ("{", "is cut off at letter 1"),
    ('{"traceEvents": [', "is cut off at letter 17"),
    ('{"traceEvents": [{"ph": "X"}', "is cut off at letter 28"),
    ('{"traceEvents": [{"ph": "X"', "is cut off at letter 27"),
    ('{"traceEvents": [{"ph": "X"} {}]}', "is no JSON at letter 28"),
    ('{"traceEvents" []}', "is no JSON at letter 14"),
    ("{7: []}", "is no JSON at letter 2"),
    ('{"cells": []}', "neither a recording nor a trace"),
    ('{"traceEvents": 7}', "neither a recording nor a trace: it has 'traceEvents' and no list traceEvents"),
    ('{"schema": "1.1", "nodes": [], "a\\n": 1, "b": 2, "c": 3}',
     "it has 'schema', 'nodes', 'a.*n', 'b' and 1 more and no list traceEvents"),
    ('{"traceEvents": []}', "says nothing of a GPU"),
    ("[]", "says nothing of a GPU"),
    ("[1, 2", "says nothing of a GPU"),
    ('{"traceEvents": ' + "[" * 200_000, "nested too deeply"),
    ('{"a": ' * 100_000, "nested too deeply"),
    ('{"traceEvents": [' + "9" * 5_000 + "]}", "is no JSON"),
    (b'{"traceEvents": \xff[]}', "is no JSON at letter 16"),
], ids=range(17))
def test_text_that_is_no_trace(tmp_path: Path, text: str | bytes, message: str) -> None:
    refused(text_file(tmp_path, text), message)


def test_a_trace_of_the_host_alone_says_what_is_in_it(tmp_path: Path) -> None:
    events = [*(event("cpu_op", "aten::add", at, 2) for at in range(3)), event("user_annotation", "step", 1, 2),
              *(event("python_function", "f", at, 2) for at in range(2)), event("mtia\nruntime", "f", 1, 2),
              *(event(f"kind{at}", "f", 1, 2) for at in range(7))]
    message = refused(write_json(tmp_path / "trace.json", events), "of torch.profiler .* says nothing of a GPU")
    assert "but 3 cpu_op, 2 python_function, 1 user_annotation, 1 mtia runtime and 7 more" in message
    assert "needed are events of the categories kernel, gpu_memcpy" in message


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400", "1e30", '"later"', "null", "[]", "true",
                                   "99999999999999999999999"])
@pytest.mark.parametrize("name", ["ts", "dur"])
def test_times_that_are_none(tmp_path: Path, name: str, value: str) -> None:
    text = json.dumps({"traceEvents": [event("kernel", "f", 1, 2, pid=0)]}).replace(
        f'"{name}": {1 if name == "ts" else 2}', f'"{name}": {value}')
    refused(text_file(tmp_path, text), f"event 'f' has .* as its {name}")


def test_an_event_that_ends_before_it_starts_is_left_out(tmp_path: Path) -> None:
    path = write_json(tmp_path / "trace.json", [*launched("f", 10, 5), *launched("g", 50, 6, dur=-3)])
    recording = kernelscope.load(path)
    assert [row["name"] for row in recording.rows("activities")] == ["f"]


@pytest.mark.parametrize("value", [-1, 2**80, "x", None, [], {}, True, 1.5])
@pytest.mark.parametrize("name", ["correlation", "stream", "device", "registers per thread", "grid", "shared memory"])
def test_numbers_that_are_none_are_unknown(tmp_path: Path, name: str, value: Any) -> None:
    events = launched("f", 10, 5)
    events[1]["args"][name] = value
    recording = kernelscope.load(write_json(tmp_path / "trace.json", events))
    assert len(recording.rows("activities")) == 1
    kernelscope.load(recording.save(tmp_path / "again.kscope"))


@pytest.mark.parametrize("wrong", [
    {"ph": "X"}, {"ph": []}, {"ph": "X", "cat": []}, {"ph": "M", "args": 7}, 7, None, [[]],
    {"ph": "M", "name": "process_name", "args": {"name": "/device:GPU:0"}, "pid": {}},
    {"ph": "X", "cat": "overhead\x1b" * 50},
])
def test_events_that_are_none_are_left_out(tmp_path: Path, wrong: Any) -> None:
    path = write_json(tmp_path / "trace.json", [wrong, *launched("f", 10, 5)])
    recording = kernelscope.load(path)
    assert len(recording.rows("launches")) == 1
    assert "\x1b" not in recording.summary()


def test_a_gzip_bomb(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb") as file:
        file.write(b'{"traceEvents": [')
        for _ in range(80):
            file.write(b" " * (1 << 20))
    assert path.stat().st_size < 200_000
    refused(path, "has more than 64 MiB of text")


def test_text_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MOST_BYTES", 100)
    refused(write_json(tmp_path / "long.json", launched("f", 10, 5)), "of text, which is more than is opened")


def test_a_damaged_gzip(tmp_path: Path) -> None:
    path = write_json(tmp_path / "trace.json.gz", [each for at in range(200) for each in launched("f", at, at + 1)])
    whole = path.read_bytes()
    for data in (whole[:-20], whole[:len(whole) // 2] + b"\0" * 50, whole[:12]):
        path.write_bytes(data)
        refused(path, "is damaged after .* bytes of its text")


def test_a_gzip_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"hello"))
    refused(path, "is no JSON|neither a recording nor a trace")
