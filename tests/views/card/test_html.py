from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from cards import HOSTILE, Reader

from kernelscope.palette import PHASE_COLORS
from kernelscope.units import count, duration, percent
from kernelscope.views.card.html import MAKES, card, page
from kernelscope.views.card.model import overview
from kernelscope.views.card.sections import EMPTY, EMPTY_CHECKS, figures
from kernelscope.views.card.text import summary


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


def test_numbers_agree_with_the_data_and_with_the_text(story: Any, many: Any) -> None:
    for recording in (story().recording(), many(3_000, 9)):
        shown = overview(recording)
        text, read = summary(recording, 200), Reader(card(recording))
        for figure in figures(shown):
            for output in (text, read.text):
                assert figure.label in output
                assert figure.value in output
                assert figure.note in output
        body = [row for row in read.rows if row]
        for kernel in shown.by_kernel:
            share = (kernel.host_ns or 0) / (shown.totals.host_ns or 1)
            expected = [
                f"{count(kernel.launches)} {count(kernel.configurations)}",
                f"{count(kernel.compiles)} {count(kernel.specializations)}",
                f"{count(kernel.memory_hits)} {count(kernel.disk_hits)}",
                f"{duration(kernel.host_ns)} {percent(share)}",
                f"{duration(kernel.median_ns)} {duration(kernel.p95_ns)}",
            ]
            assert any(row[0].startswith(kernel.name) and row[1:6] == expected for row in body)
            line = next(line for line in text.splitlines() if line.split()[:2] == [kernel.name, count(kernel.launches)])
            assert line.split()[1:5] == [
                count(each) for each in (kernel.launches, kernel.compiles, kernel.disk_hits, kernel.memory_hits)]
            assert duration(kernel.host_ns) in line
            assert duration(kernel.median_ns) in line
        for name, value in shown.totals.segments:
            assert f"{name} {duration(value)} ({value:,} ns" in card(recording)
        for each in shown.compilations:
            for output in (" ".join(text.split()), read.text):
                assert each.reason in output
                assert each.fix is None or each.fix in output


def test_bars_have_exact_numbers_that_add_up(story: Any) -> None:
    recording = story().recording()
    labels = [value for name, value in Reader(card(recording)).attributes if name == "aria-label"]
    spent = [int(found.replace(",", "")) for found in re.findall(r"\(([\d,]+) ns", labels[0])]
    assert sum(spent) == overview(recording).totals.host_ns
    assert labels[1].startswith("excluding compilation: dispatch")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(hostile: Any, name: str) -> None:
    html = card(hostile(name).recording())
    read = Reader(html)
    assert not read.tags & {"script", "img"}
    assert "onerror" not in {attribute for attribute, _ in read.attributes}
    assert not set(html) & {"\x1b", "\u202e", "\r"}
    shown = name.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e").replace("\n", "\\n")
    titles = [value for attribute, value in read.attributes if attribute == "title"]
    assert shown in titles
    assert "".join(read.texts).count(shown) >= 2
    document = page(hostile(name).recording(), name)
    assert "<script" not in document
    Reader(document.removeprefix("<!DOCTYPE html>\n"))


@pytest.mark.parametrize(("metadata", "notice"), [
    ({"dry_run": True}, "dry run: kernels did not execute"),
    ({"simulator": True}, "CUDA simulator: times say nothing about a GPU"),
])
def test_the_notice_is_on_every_card(story: Any, script: Any, metadata: dict[str, Any], notice: str) -> None:
    for made in (story(**metadata), script(**metadata)):
        recording = made.recording()
        assert f'<div class="ks-notice" role="note">{notice}</div>' in card(recording)
        assert page([recording, recording], "x").count(f">{notice}</div>") == 2
    assert 'class="ks-notice"' not in card(story().recording())


def test_an_empty_recording_says_what_to_check(script: Any) -> None:
    made = script()
    made.cell(execution_count=2)
    made.health("numba-cuda", "unavailable", message="not installed", fix="pip install numba-cuda")
    read = Reader(card(made.recording()))
    for part in (EMPTY, *EMPTY_CHECKS, "numba-cuda: unavailable, not installed",
                 "pip install numba-cuda"):
        assert part in " ".join(read.texts)
    assert "table" not in read.tags


def test_500_kernels_are_legible_and_small(many: Any) -> None:
    html = card(many(20_000, 500))
    read = Reader(html)
    assert "488 more kernels" in read.text
    assert len(html) < 400_000
    assert {f"kernel_{at:03}" for at in range(500)} <= set(read.texts)


def test_long_names_keep_both_ends_and_their_title(long: Any) -> None:
    recording = long().recording()
    name = overview(recording).by_kernel[0].name
    html = card(recording)
    assert f'title="{name}"' in html
    assert f"<span>{name[:-14]}</span><span>{name[-14:]}</span>" in html


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


def test_trouble_of_the_recording_is_marked(story: Any) -> None:
    made = story()
    made.health("recorder", "degraded", message="the buffer was full", dropped=12, errors=2, fix="shorter cells")
    html = card(made.recording())
    assert (
        '<div class="ks-trouble">recorder: degraded, the buffer was full; 12 records dropped; 2 errors inside '
        'KernelScope, counted and swallowed <span class="ks-fix"><b>Fix</b> shorter cells</span></div>'
    ) in html
    assert "<div>numba-cuda: ok, numba-cuda 0.30.4</div>" in html


def test_failed_launches_and_cells(story: Any) -> None:
    made = story()
    made.rows["cells"][0] |= {"status": "error", "error": "TypeError: <no>"}
    made.rows["launches"][-1]["error"] = "TypeError"
    html = card(made.recording())
    assert '<span class="ks-chip ks-bad">error</span>' in html
    assert '<div class="ks-error">TypeError: &lt;no&gt;</div>' in html
    assert "1 launch failed" in html


def test_cells_stand_on_the_card_where_there_are_several(story: Any) -> None:
    made = story()
    assert ">Cells<" not in card(made.recording())
    for at in range(20):
        made.cell(execution_count=at + 8)
    html = card(made.recording())
    assert ">Cells<" in html
    assert "<b>9 more cells</b>" in html


def test_many_compiles_are_folded(script: Any) -> None:
    made = script()
    made.kernel()
    for at in range(600):
        made.compilation(signature=f"(array(float32, {at}d, C),)", specialization_id=None)
    html = card(made.recording())
    assert "<b>592 more compiles</b>" in html
    assert "and 92 more" in html


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


def test_long_cell_names_do_not_fill_the_card(script: Any) -> None:
    made = script()
    made.kernel()
    made.specialization()
    made.configuration()
    for _ in range(2):
        made.cell(name="word " * 200)
    made.launch()
    assert (">" + "word " * 20) not in re.sub(r'title="[^"]*"', "", card(made.recording()))


def test_the_kernels_that_are_not_under_configurations_are_counted(many: Any) -> None:
    recording = many(40, 20)
    kernels = len(overview(recording).by_kernel)
    assert f"<b>12 kernels</b> of {kernels:,}, " in card(recording)


def test_a_kernel_without_specializations_here_has_no_registers(script: Any) -> None:
    made = script()
    made.cell()
    made.kernel()
    made.specialization(regs=14)
    made.configuration()
    made.launch(specialization=None, error="TypingError")
    assert overview(made.recording()).by_kernel[0].specializations == 0
    assert "0 specializations, 1 launch failed" in summary(made.recording())


def test_ranges_are_shown_where_there_are_any(story: Any) -> None:
    made = story()
    assert "Ranges" not in Reader(card(made.recording())).text
    assert "Ranges" not in summary(made.recording())
    made.range("epoch")
    made.range("step <1>", parent_range_id=0, depth=1)
    made.range("mark", kind="mark", end_ns=0)
    recording = made.recording()
    read = Reader(card(recording))
    assert "2 ranges, 1 mark, 2 still open at the end" in read.text
    row = next(row for row in read.rows if row[0].startswith("epoch / step <1>"))
    assert row[1:3] == ["1", "5"]
    assert row[3].startswith(duration(overview(recording).totals.host_ns))
    text = summary(recording, 120)
    assert "Ranges (2 ranges, 1 mark, 2 still open at the end)" in text
    assert "epoch / step <1>" in text
    assert max(len(line) for line in summary(recording, 80).splitlines()) <= 80


def test_many_paths_are_folded(story: Any) -> None:
    made = story()
    for number in range(30):
        made.range(f"range {number}")
    assert "18 more paths" in Reader(card(made.recording())).text
    assert "and 18 more paths" in summary(made.recording(), 120)


def test_ranges_without_launches(script: Any) -> None:
    made = script()
    made.range("alone")
    assert "alone" in Reader(card(made.recording())).text
    assert "alone" in summary(made.recording())


def test_marks_alone(story: Any) -> None:
    made = story()
    made.range("mark", kind="mark", end_ns=0)
    assert "0 ranges, 1 mark" in Reader(card(made.recording())).text
    assert "Ranges (0 ranges, 1 mark)" in summary(made.recording())
