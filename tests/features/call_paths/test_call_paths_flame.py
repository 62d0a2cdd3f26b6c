"""The flame graph as data, as text and as a static picture; names from user code, and recordings of any depth."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from stacked import StackScript, many_paths, simulation

import kernelscope
from kernelscope.features.call_paths.analyse import METRICS
from kernelscope.features.call_paths.flame import HOW_TO, Flame, flame_of, made
from kernelscope.features.call_paths.svg import images, static_svg
from kernelscope.features.call_paths.text import call_paths_text
from kernelscope.features.call_paths.wire import pack
from kernelscope.recording.model import Recording
from kernelscope.views.card.html import card
from kernelscope.views.card.text import summary
from kernelscope.views.live import header_of

HOSTILE = '</script><b onclick="alert(1)">\x1b[31m;\n\u202eevil'


def flame(recording: Recording, most: int = 20_000) -> Flame:
    found = flame_of(recording) if most == 20_000 else made(recording, most)
    assert found is not None
    return found


def deep(depth: int) -> Recording:
    script = StackScript()
    script.cell()
    script.launchable()
    script.launch(stack_id=script.path(*[1, 2] * (depth // 2)))
    return script.recording()


def unpacked(packed: bytes) -> dict[str, Any]:
    return json.loads(zlib.decompress(packed, -zlib.MAX_WBITS))


@pytest.mark.parametrize("most", [20_000, 12, 3])
def test_what_is_left_out_is_its_callers_own(most: int) -> None:
    whole, shown = flame(simulation()), flame(simulation(), most)
    assert len(shown.parent) == min(most, len(whole.parent))
    assert len(shown.parent) + shown.left_out == len(whole.parent)
    assert shown.parent[0] == -1 and (shown.parent[1:] < np.arange(1, len(shown.parent))).all()
    for metric in METRICS:
        assert shown.totals[metric][0] == whole.totals[metric][0] == shown.own[metric].sum()
        assert (shown.own[metric] >= 0).all()
    # What is shown weighs at least what is not.
    share = np.max([whole.totals[each] / whole.totals[each][0] for each in METRICS], axis=0)
    kept = np.max([shown.totals[each] / shown.totals[each][0] for each in METRICS], axis=0)
    assert sorted(kept.tolist()) == sorted(share.tolist())[-len(kept):]
    assert ("summed into callers" in shown.remark) == bool(shown.left_out)


def test_frames_say_whose_they_are_and_where() -> None:
    named = {frame.label: frame for frame in flame(simulation()).frames}
    assert {label: frame.kind for label, frame in named.items()} == {
        "all": "all", "In[3]:6": "user", "run In[3]:4": "user", "Loop.run sim.py:30": "user", "step sim.py:12": "user",
        "step sim.py:19": "user", "Solver.solve core.py:208": "library", "apply core.py:77": "library",
        "diffuse": "kernel", "advect": "kernel", "project": "kernel", "memcpy HtoD": "kernel",
        "no known call path": "unknown"}
    assert named["run In[3]:4"].code == "sim.loop()"


def test_the_widths_of_children_lie_in_their_parents() -> None:
    shown = flame(simulation())
    for metric in METRICS:
        left, width = shown.left(metric), shown.totals[metric] / shown.totals[metric][0]
        for at in range(1, len(left)):
            above = shown.parent[at]
            assert left[above] - 1e-12 <= left[at] <= left[at] + width[at] <= left[above] + width[above] + 1e-12
            beside = (shown.parent == above) & (shown.totals[metric] > shown.totals[metric][at])
            assert (left[beside] < left[at]).all()


def test_the_text_has_the_heaviest_paths_and_says_how_to_record_them() -> None:
    text = call_paths_text(simulation())
    lines = [line.strip().split("  ")[0] for line in text.splitlines()[1:]]
    assert lines[:5] == ["In[3]:6", "run In[3]:4", "Loop.run sim.py:30", "step sim.py:19", "Solver.solve core.py:208"]
    assert "/home/u" not in text
    script = StackScript()
    script.rows.pop("stacks")
    script.launchable()
    script.launch()
    assert HOW_TO in call_paths_text(script.recording())
    assert "Call paths" not in summary(script.recording())


def test_the_picture_is_small_and_well_formed() -> None:
    for recording in (simulation(), many_paths(20_000, 5_000), deep(5_000)):
        shown = flame(recording)
        root = ElementTree.fromstring(static_svg(shown, "host"))
        assert root.get("width") == "100%" and int(root.get("height") or 0) < 600
        assert len(images(shown)) < 30_000


def test_a_saved_card_grows_by_little() -> None:
    with_paths, without = many_paths(20_000, 5_000), many_paths(20_000, 5_000)
    without = Recording({name: table for name, table in without.tables.items() if name != "stacks"}, without.metadata)
    assert 5_000 < len(card(with_paths)) - len(card(without)) < 35_000
    assert "Call paths: " in summary(with_paths)


def test_names_from_user_code_are_escaped_everywhere() -> None:
    script = StackScript()
    script.cell(source=f"{HOSTILE}\nrun()")
    script.launchable(HOSTILE)
    script.launch(stack_id=script.path(script.line(HOSTILE, 1, HOSTILE)))
    recording = script.recording()
    shown = flame(recording)
    drawn = static_svg(shown, "host")
    ElementTree.fromstring(drawn)
    page = card(recording)
    held = base64.b64decode(header_of(recording)["flame"])
    for text in (drawn, page, call_paths_text(recording), zlib.decompress(held, -zlib.MAX_WBITS).decode()):
        assert "\x1b" not in text and "\u202e" not in text
    for html in (drawn, page):
        assert "<b onclick" not in html and "</script>" not in html


def test_recursion_is_no_limit() -> None:
    shown = flame(deep(9_000))
    assert shown.depth.max() == 9_001
    assert call_paths_text(deep(9_000)).count("\n") < 100
    assert unpacked(pack(shown))["up"] == [1] * 9_001
    assert re.search(r"8,978 deeper rows", static_svg(shown, "host"))
    assert "Call paths: 1" in summary(deep(9_000))


def test_the_widget_has_the_graph_and_leaves_a_picture() -> None:
    shown = kernelscope.flame(simulation(), height=300)
    fields, packed = shown.data()
    assert fields == {"header": {}} and unpacked(packed)["frames"][0][0] == "all"
    text, html = shown.static_version()
    assert text == str(shown) == call_paths_text(simulation())
    assert html.count("<img ") == 2
    script = StackScript()
    script.rows.pop("stacks")
    with pytest.raises(kernelscope.KernelScopeError, match="no call paths were recorded.*--stacks"):
        kernelscope.flame(script.recording())


def test_the_wire_has_what_the_model_has() -> None:
    shown = flame(simulation())
    held = unpacked(pack(shown))
    assert [1 + at - up for at, up in enumerate(held["up"])] == shown.parent[1:].tolist()
    assert held["own"] == {name: values.tolist() for name, values in shown.own.items()}
    assert [held["frames"][at][0] for at in held["frame"]] == [shown.frames[at].name for at in shown.frame]
    assert [each[0] for each in held["metrics"]] == [*METRICS]
