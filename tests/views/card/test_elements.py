from __future__ import annotations

import pytest

from kernelscope.views.html import sentence


@pytest.mark.parametrize(("text", "html"), [
    ("argument `x[1]` is None", 'argument <span class="ks-arg">x[1]</span> is None'),
    ("a lone ` stays", "a lone ` stays"),
    ("`<b>` & `&`", '<span class="ks-arg">&lt;b&gt;</span> &amp; <span class="ks-arg">&amp;</span>'),
    ("``", "``"),
])
def test_names_in_sentences_are_code_and_everything_is_escaped(text: str, html: str) -> None:
    assert sentence(text) == html
