from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from cards import HOSTILE, Reader

from kernelscope.palette import PHASE_COLORS
from kernelscope.recording.model import Recording
from kernelscope.views.card.html import MAKES, card, page
from kernelscope.views.card.model import overview
from kernelscope.views.card.sections import EMPTY, EMPTY_CHECKS
from kernelscope.views.card.text import launches_table, summary
from kernelscope.views.html import sentence


def _cards(story: Any, script: Any, many: Any, long: Any, hostile: Any) -> list[Any]:
    return [story().recording(), story(dry_run=True).recording(), script().recording(), many(2_000, 500),
            long().recording(), *(hostile(name).recording() for name in HOSTILE)]


def test_cards_are_well_formed_and_self_contained(story: Any, script: Any, many: Any, long: Any, hostile: Any) -> None:
    for recording in _cards(story, script, many, long, hostile):
        html = card(recording)
        read = Reader(html)
        assert read.tags <= {
            "style", "div", "span", "b", "small", "ul", "li", "table", "colgroup", "col", "thead", "tbody", "tr", "th",
            "td", "details", "summary"}
        names = {name for name, _ in read.attributes}
        assert names <= {"class", "style", "title", "role", "aria-label", "aria-level"}, "no id, no handler, no address"
        assert not re.search(r"https?:|url\(|@import", html)
        assert html.isprintable() or set(filter(lambda char: not char.isprintable(), html)) == {"\n"}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(hostile: Any, name: str) -> None:
    made = hostile(name)
    made.metadata["gpu"] = {"source": name}
    made.activity(name=name)
    made.activity("memcpy", name, memory=name)
    recording = made.recording()
    html = card(recording)
    read = Reader(html)
    assert not read.tags & {"script", "img"}
    assert "onerror" not in {attribute for attribute, _ in read.attributes}
    shown = name.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e").replace("\n", "\\n")
    titles = [value for attribute, value in read.attributes if attribute == "title"]
    assert shown in titles
    assert "".join(read.texts).count(shown) >= 2
    document = page(recording, name)
    assert "<script" not in document
    Reader(document.removeprefix("<!DOCTYPE html>\n"))
    for text in (summary(recording, 120), launches_table(recording, 5, 200)):
        assert all(line.isprintable() for line in text.splitlines())
    assert not set(html + summary(recording)) & {"\x1b", "\u202e", "\r"}


@pytest.mark.parametrize(("text", "html"), [
    ("argument `x[1]` is None", 'argument <span class="ks-arg">x[1]</span> is None'),
    ("a lone ` stays", "a lone ` stays"),
    ("`<b>` & `&`", '<span class="ks-arg">&lt;b&gt;</span> &amp; <span class="ks-arg">&amp;</span>'),
    ("``", "``"),
])
def test_names_in_sentences_are_code_and_everything_is_escaped(text: str, html: str) -> None:
    assert sentence(text) == html


@pytest.mark.parametrize(("metadata", "notice"), [
    ({"dry_run": True}, "dry run: kernels did not execute"),
    ({"simulator": True}, "CUDA simulator: times say nothing about a GPU"),
])
def test_the_notice_is_on_every_output(story: Any, script: Any, metadata: dict[str, Any], notice: str) -> None:
    for made in (story(**metadata), script(**metadata)):
        recording = made.recording()
        assert overview(recording).notice == notice
        assert f'<div class="ks-notice" role="note">{notice}</div>' in card(recording)
        assert page([recording, recording], "x").count(f">{notice}</div>") == 2
        assert summary(recording).splitlines()[1] == f"*** {notice} ***"
        assert launches_table(recording).startswith(f"*** {notice} ***")
    assert 'class="ks-notice"' not in card(story().recording())
    assert "***" not in summary(story().recording())


def test_an_empty_recording_says_what_to_check(script: Any) -> None:
    made = script(dry_run=True)
    made.cell(execution_count=2)
    made.health("numba-cuda", "unavailable", message="not installed", fix="pip install numba-cuda")
    recording = made.recording()
    read = Reader(card(recording))
    for output in (" ".join(read.texts), " ".join(summary(recording).split())):
        for part in (EMPTY, *EMPTY_CHECKS, "numba-cuda: unavailable, not installed", "pip install numba-cuda"):
            assert part in output
    assert "table" not in read.tags
    assert launches_table(recording).splitlines()[1:] == ["no kernel launches in this cell"]


def test_what_is_much_is_folded_on_pages_and_cut_in_text(many: Any, script: Any) -> None:
    kernels = many(20_000, 500)
    html, text = card(kernels), summary(kernels, 100)
    assert "488 more kernels" in html
    assert {f"kernel_{at:03}" for at in range(500)} <= set(Reader(html).texts)
    assert len(html) < 400_000
    assert "and 488 more kernels" in text
    assert len(text.splitlines()) < 250
    made = script()
    made.kernel()
    for at in range(600):
        made.compilation(signature=f"(array(float32, {at}d, C),)", specialization_id=None)
    made.configuration()
    for at in range(21):
        made.cell(execution_count=at)
        made.launch(specialization=None)
    for at in range(30):
        made.range(f"range {at}")
    html, text = card(made.recording()), summary(made.recording(), 120)
    for part in ("592 more compiles", "and 92 more", "10 more cells", "18 more paths"):
        assert part in html, part
    assert "and 18 more paths" in text


def test_long_names_keep_both_ends_and_their_title(long: Any) -> None:
    recording = long().recording()
    name = overview(recording).by_kernel[0].name
    html, text = card(recording), summary(recording, 100)
    assert f'title="{name}"' in html
    assert f"<span>{name[:-14]}</span><span>{name[-14:]}</span>" in html
    assert "…" in text and "_the_end" in text
    made = long()
    made.cell(name="word " * 200)
    assert (">" + "word " * 20) not in re.sub(r'title="[^"]*"', "", card(made.recording()))


def test_bars_have_exact_numbers_that_add_up(story: Any, gpu_story: Any) -> None:
    def totals(recording: Recording, *beginnings: str) -> list[int]:
        labels = [value for name, value in Reader(card(recording)).attributes if name == "aria-label"]
        found = [next(label for label in labels if label.startswith(each)) for each in beginnings]
        return [sum(int(ns.replace(",", "")) for ns in re.findall(r"\(([\d,]+) ns", label)) for label in found]

    host = overview(story().recording())
    assert totals(story().recording(), "dispatch") == [host.totals.host_ns]
    shown = overview(gpu_story().recording()).gpu
    assert shown is not None
    spent = totals(gpu_story().recording(), "kernel ", "while idle: ")
    assert spent == [shown.busy[0].window_ns, shown.idle[0].idle_ns]


def test_ranges_are_shown_where_there_are_any(story: Any, script: Any) -> None:
    assert "Ranges" not in Reader(card(story().recording())).text + summary(story().recording())
    alone, marks = script(), story()
    alone.range("alone")
    marks.range("mark", kind="mark", end_ns=0)
    for output in (Reader(card(alone.recording())).text, summary(alone.recording())):
        assert "alone" in output
    assert "0 ranges, 1 mark" in Reader(card(marks.recording())).text
    assert "Ranges (0 ranges, 1 mark)" in summary(marks.recording())


def test_phases_that_were_not_recorded_say_so(script: Any) -> None:
    made = script()
    made.cell()
    made.kernel()
    made.configuration()
    made.launch(phases=None, specialization=None)
    html = card(made.recording())
    assert "not recorded" in html
    assert "other 10.0 µs (10,000 ns, 100 %)" in html
    made.rows["launches"][0]["end_ns"] = None
    assert 'class="ks-bar' not in card(made.recording()).split("</style>")[1]


def test_colors_follow_jupyter_vscode_and_the_system(story: Any) -> None:
    html = card(story().recording())
    for part in (
        "--jp-layout-color1", "--jp-ui-font-color1", "--vscode-editor-background", "prefers-color-scheme: dark",
    ):
        assert part in html
    for name, color in PHASE_COLORS.items():
        assert f".ks-{name} {{ background: {color}; }}" in html
    selectors = re.findall(r"(?:^|[{}\n])\s*([.@a-z][^{}\n]*)\{", html.split("</style>")[0])
    assert all(each.lstrip().startswith((".kscope", "@media", "@container")) for each in selectors)


@pytest.mark.parametrize("ground", ["#ffffff", "#16191d", "#111111"])
def test_phase_colors_stand_out_from_the_ground(ground: str) -> None:
    for color in PHASE_COLORS.values():
        light, dark = sorted((_luminance(color), _luminance(ground)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 2


def _luminance(color: str) -> float:
    channels = [int(color[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_page_holds_one_or_several_cards(story: Any) -> None:
    recording = story().recording()
    one, two = page(recording, "Demo & more"), page([recording, recording], "x")
    assert one.startswith("<!DOCTYPE html>")
    assert "<title>Demo &amp; more</title>" in one
    assert (one.count('<div class="kscope">'), two.count('<div class="kscope">')) == (1, 2)
    assert two.count("<style>") == 1
    Reader(two.removeprefix("<!DOCTYPE html>\n"))
    assert MAKES.media_type == "text/html"


def test_signatures_break_between_arguments(script: Any) -> None:
    made = script()
    made.kernel()
    made.compilation(signature="(array(float32, 1d, C), int64)")
    assert "(array(float32,&nbsp;1d,&nbsp;C), int64)" in card(made.recording())


def test_the_card_needs_neither_a_framework_nor_pandas_nor_plotly() -> None:
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "cuda", "pandas", "plotly", "IPython"):
            raise ImportError(f"{name} is not there")
sys.meta_path.insert(0, Refuse())
from kernelscope.recording.model import Recording
from kernelscope.views.card import html
from kernelscope.views.card import text
recording = Recording({}, {"dry_run": True})
assert "dry run" in html.card(recording) and "dry run" in text.summary(recording)
loaded = {name for name in sys.modules if name.split(".")[0] == "kernelscope"}
assert not [name for name in loaded if name.split(".")[1:2] in (["recorder"], ["probes"], ["dryrun"])], loaded
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)


def test_an_error_of_many_lines_is_shown_in_brief(script: Any) -> None:
    made = script()
    made.cell(status="error", error="TypingError: No match\n \n >>> mul(a, b)\n" + "candidate\n" * 40)
    for text in (card(made.recording()), summary(made.recording())):
        assert "\\n" not in text
        assert text.count("candidate") == 1


def test_a_kernel_without_specializations_here_has_no_registers(script: Any) -> None:
    made = script()
    made.cell()
    made.kernel()
    made.specialization(regs=14)
    made.configuration()
    made.launch(specialization=None, error="TypingError")
    assert overview(made.recording()).by_kernel[0].specializations == 0
    assert "0 specializations, 1 launch failed" in summary(made.recording())
