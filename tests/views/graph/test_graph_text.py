"""Graphs as text."""

# ruff: noqa: RUF001 - the sign of multiplication is meant
from __future__ import annotations

import pytest
from drawn_graphs import chain, every_kind, nested, strange, tangle

from kernelscope.views.graph.text import graph_text

SMALL = """\
graph 0 · 14 nodes, 13 edges · instantiated once, launched 20 times · 354 µs of GPU time a launch
6 kernels, 2 memcpy nodes, 1 memset, 1 while, 1 if, 3 others

  layer  node                                                  time  share
      1     0  copy HtoD         memcpy · 1.0 MiB           90.0 µs   25 %
      2     2  axpy              kernel · [4, 128]          20.0 µs  5.6 %  after 0
            1  memset            4.0 KiB                    3.00 µs  0.8 %
      3    11  event record                                                 after 2
            3  scale             kernel · [16 × 16, 8 × 8]  55.0 µs   16 %  after 1, 2
      4     4  while             2 nodes                    90.0 µs   25 %  after 2, 3
                 body:
      1     5     reduce_blocks  kernel · [1,024, 256]      40.0 µs   23 %
      2     6     finish         kernel · [4, 128]          5.00 µs  2.8 %  after 5
            7  if                3 nodes                    8.00 µs  2.3 %  after 3
                 then:
      1     8     axpy           kernel · [4, 128]          8.00 µs  2.3 %
                 else:
      1     9     scale          kernel · [4, 128]
      2    10     empty                                                     after 9
      5    12  copy DtoH         memcpy · 1.0 MiB           88.0 µs   25 %  after 4, 7, 0
      6    13  print_result      host function                              after 12"""


def test_a_small_graph_is_listed_by_layer() -> None:
    assert graph_text(every_kind(), width=100) == SMALL


def test_a_large_graph_is_summarized() -> None:
    said = graph_text(tangle(150), width=100)
    lines = said.splitlines()
    assert lines[0].startswith("graph 0 · 150 nodes, ")
    assert any("layers, the widest of " in line for line in lines)
    assert max(map(len, lines)) <= 100
    assert len(lines) < 30
    bands = [line.split() for line in lines if " × " in line]
    assert sum(int(band[1]) for band in bands) == 150


@pytest.mark.parametrize("width", [80, 100, 200])
def test_lines_keep_to_the_width(width: int) -> None:
    for recording in (every_kind(), strange(), nested(40), tangle(300)):
        text = graph_text(recording, width=width)
        assert max(map(len, text.splitlines())) <= width
        assert "\x1b" not in text and "\u202e" not in text
    # Columns that nothing is in are left out.
    assert graph_text(chain(3), width=100).splitlines()[-1] == "      3     2  axpy  kernel · [4, 128]  after 1"
