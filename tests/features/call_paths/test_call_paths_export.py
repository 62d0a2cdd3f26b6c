"""Call paths in the formats of other programs: speedscope, folded stacks, Perfetto and Chrome."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from stacked import LINES, StackScript, simulation

from kernelscope.commands.export import exported
from kernelscope.errors import KernelScopeError
from kernelscope.features.call_paths.analyse import METRICS, call_tree
from kernelscope.recording.file import load
from kernelscope.recording.model import Recording
from kernelscope.views.exports import exporter_named_by

UNITS = ("none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes")


def samples(recording: Recording, folder: Path, metric: str) -> Counter[tuple[str, ...]]:
    """What `to_collapsed` wrote."""
    path = recording.to_collapsed(folder / metric, metric=metric)
    assert path.name == f"{metric}.folded"
    found = Counter[tuple[str, ...]]()
    for line in path.read_text(encoding="utf-8").splitlines():
        frames, _, weight = line.rpartition(" ")
        found[tuple(frames.split(";"))] += int(weight)
    return found


def test_folded_stacks_add_up(tmp_path: Path) -> None:
    recording = simulation()
    tree = call_tree(recording)
    assert tree is not None
    for metric in METRICS:
        assert sum(samples(recording, tmp_path, metric).values()) == tree.own[metric].sum()
    found = samples(recording, tmp_path, "launches")
    assert found["In[3] (In[3]:6)", "run (In[3]:4)", "Loop.run (sim.py:30)", "step (sim.py:12)", "diffuse"] == 16
    assert found["no known call path", "diffuse"] == 1


def test_a_file_of_speedscope_keeps_the_rules_of_its_schema(tmp_path: Path) -> None:
    recording = simulation()
    path = recording.to_speedscope(tmp_path / "out")
    assert path.name == "out.speedscope.json"
    held = json.loads(path.read_text(encoding="utf-8"))
    assert {*held} <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    assert held["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames: list[dict[str, Any]] = held["shared"]["frames"]
    for frame in frames:
        assert {"name"} <= {*frame} <= {"name", "file", "line", "col"}
        assert isinstance(frame["name"], str) and isinstance(frame.get("line", 0), int)
    assert {frame.get("file") for frame in frames} == {"In[3]", "sim.py", "core.py", None}
    assert [each["name"] for each in held["profiles"]] == ["Host time", "GPU time", "Compile time", "Launches"]
    for metric, each in zip(METRICS, held["profiles"], strict=True):
        assert {*each} == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert each["type"] == "sampled" and each["unit"] in UNITS
        assert len(each["samples"]) == len(each["weights"])
        assert each["startValue"] == 0 and each["endValue"] == sum(each["weights"])
        assert all(0 <= at < len(frames) for sample in each["samples"] for at in sample)
        named = Counter[str]()
        for sample, weight in zip(each["samples"], each["weights"], strict=True):
            named[frames[sample[-1]]["name"]] += weight
        kernels = Counter[str]()
        for path, weight in samples(recording, tmp_path, metric).items():
            kernels[path[-1]] += weight
        assert named == kernels
    with_paths = json.loads(recording.to_speedscope(tmp_path / "paths", paths=True).read_text(encoding="utf-8"))
    assert {frame.get("file") for frame in with_paths["shared"]["frames"]} == {*(line[0] for line in LINES), None}


def test_the_command_line_names_the_files(tmp_path: Path) -> None:
    source = simulation().save(tmp_path / "run.kscope")
    assert exported(load(source), "speedscope", None, str(source)) == (tmp_path / "run.speedscope.json", "")
    assert exported(load(source), "collapsed", None, str(source)) == (tmp_path / "run.folded", "")
    assert exporter_named_by("a.speedscope.json").name == "speedscope"
    assert exporter_named_by("a.json").name == "perfetto"


@pytest.mark.parametrize("name", ["to_speedscope", "to_collapsed"])
def test_without_call_paths_it_says_how_to_record_them(tmp_path: Path, name: str) -> None:
    script = StackScript()
    script.rows.pop("stacks")
    script.launchable()
    script.launch()
    with pytest.raises(KernelScopeError, match="--stacks"):
        getattr(script.recording(), name)(tmp_path / "out")
    assert not [*tmp_path.iterdir()]


def test_a_metric_that_there_is_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(KernelScopeError, match="'hots' is none of host, gpu, compile, launches.*'host'"):
        simulation().to_collapsed(tmp_path / "out", metric="hots")
    with pytest.raises(KernelScopeError, match="no gpu time by call path; it has host, compile, launches"):
        simulation(gpu=False).to_collapsed(tmp_path / "out", metric="gpu")


def test_separators_in_names_are_replaced(tmp_path: Path) -> None:
    script = StackScript()
    script.launchable("kernel;of\ntwo lines")
    script.launch(stack_id=script.path(script.line("a;b.py", 3, "f\n;g")))
    recording = script.recording()
    assert samples(recording, tmp_path, "launches") == {("f\\n,g (a,b.py:3)", "kernel,of\\ntwo lines"): 1}
    assert json.loads(recording.to_speedscope(tmp_path / "out").read_text())["shared"]["frames"][7]["name"] == "f\\n;g"


def test_recursion_is_no_limit(tmp_path: Path) -> None:
    script = StackScript()
    script.launchable()
    script.launch(stack_id=script.path(*[1, 2] * 4_000))
    recording = script.recording()
    (path, weight), = samples(recording, tmp_path, "launches").items()
    assert (len(path), weight) == (8_001, 1)
    assert len(json.loads(recording.to_speedscope(tmp_path / "out").read_text())["profiles"][0]["samples"][0]) == 8_001
    recording.to_perfetto(tmp_path / "out.pftrace")
    assert json.loads(recording.to_perfetto(tmp_path / "out.json").read_text())["stackFrames"]["8003"]["parent"]


def stacks_of(recording: Recording) -> dict[int, list[str]]:
    """The labels of each launch's call path."""
    rows, lines = recording.rows("stacks"), recording.rows("lines")
    found: dict[int, list[str]] = {}
    for launch in recording.rows("launches"):
        at, path = launch["stack_id"], list[str]()
        while at is not None:
            line = lines[rows[at]["line_id"]]
            file = line["file"].rpartition("/")[2]
            path.insert(0, f"{line['function'] or file} ({file}:{line['line']})")
            at = rows[at]["parent_stack_id"]
        found[launch["launch_id"]] = path
    return found


def test_slices_of_chromes_json_name_their_frames(tmp_path: Path) -> None:
    recording = simulation()
    held = json.loads(recording.to_perfetto(tmp_path / "out.json").read_text(encoding="utf-8"))
    frames = held["stackFrames"]
    found: dict[int, list[str]] = {}
    for event in held["traceEvents"]:
        if event.get("cat") == "launch":
            at, path = event.get("sf"), list[str]()
            while at is not None:
                path.insert(0, frames[str(at)]["name"])
                at = frames[str(at)].get("parent")
            found[event["args"]["launch"]] = path
    assert found == stacks_of(recording)
    assert sum("sf" in event for event in held["traceEvents"] if event.get("cat") == "kernel") > 50


def test_slices_of_perfetto_have_interned_call_stacks(tmp_path: Path) -> None:
    proto: Any = importlib.import_module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    recording = simulation()
    trace = proto.Trace()
    trace.ParseFromString(recording.to_perfetto(tmp_path / "out.pftrace").read_bytes())
    held: dict[int, Any] = {}
    found = Counter[tuple[str, ...]]()
    for packet in trace.packet:
        if packet.HasField("interned_data"):
            held[packet.trusted_packet_sequence_id] = packet.interned_data
        if packet.track_event.HasField("callstack_iid"):
            data = held[packet.trusted_packet_sequence_id]
            functions = {each.iid: each.str.decode() for each in data.function_names}
            frames = {each.iid: functions[each.function_name_id] for each in data.frames}
            assert {each.mapping_id for each in data.frames} == {each.iid for each in data.mappings}
            stacks = {each.iid: tuple(frames[at] for at in each.frame_ids) for each in data.callstacks}
            found[stacks[packet.track_event.callstack_iid]] += 1
    launches = Counter(tuple(path) for path in stacks_of(recording).values() if path)
    assert launches <= found and {*found} == {*launches}
