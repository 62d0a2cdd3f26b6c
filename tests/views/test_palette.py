"""Colors: what means different things differs for every reader, and text on a color can be read."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import atan2, cos, degrees, exp, hypot, radians, sin
from typing import Any

import numpy as np
import pytest

from kernelscope import palette as p

#: How people see who lack a kind of cone, on linear sRGB: G. M. Machado and others, 2009, doi:10.1109/TVCG.2009.113.
EYES: dict[str, Any] = {
    "usual": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                            [0.004733, 0.691367, 0.303900]]),
}
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                   [0.0193339, 0.1191920, 0.9503041]])
WHITE = np.array([0.95047, 1.0, 1.08883])
GROUNDS = ("#ffffff", "#16191d")

PHASES = p.PHASE_COLORS | {"other": p.OTHER_COLOR}
KERNELS = {f"kernel {at}": color for at, color in enumerate(p.KERNEL_COLORS)}
TIMELINE = {name.removesuffix("_COLOR").lower(): getattr(p, name) for name in dir(p) if name.endswith("_COLOR")}


def linear(color: str) -> Any:
    share = np.array([int(color[at:at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def lab(color: str, eyes: str) -> Any:
    share = TO_XYZ @ np.clip(EYES[eyes] @ linear(color), 0, 1) / WHITE
    f = np.where(share > 216 / 24389, np.cbrt(share), (24389 / 27 * share + 16) / 116)
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def ciede2000(first: Any, second: Any) -> float:
    """Return the difference of two colors: G. Sharma and others, 2005, doi:10.1002/col.20070."""
    (l1, a1, b1), (l2, a2, b2) = first, second
    chroma = ((hypot(a1, b1) + hypot(a2, b2)) / 2) ** 7
    stretch = 1 + 0.5 * (1 - (chroma / (chroma + 25**7)) ** 0.5)
    c1, c2 = hypot(a1 * stretch, b1), hypot(a2 * stretch, b2)
    h1, h2 = (degrees(atan2(b, a * stretch)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    hue = (h1 + turn / 2) % 360 if c1 * c2 else h1 + h2
    light, middle = (l1 + l2) / 2, (c1 + c2) / 2
    t = (1 - 0.17 * cos(radians(hue - 30)) + 0.24 * cos(radians(2 * hue)) + 0.32 * cos(radians(3 * hue + 6))
         - 0.20 * cos(radians(4 * hue - 63)))
    dl = (l2 - l1) / (1 + 0.015 * (light - 50) ** 2 / (20 + (light - 50) ** 2) ** 0.5)
    dc = (c2 - c1) / (1 + 0.045 * middle)
    dh = 2 * (c1 * c2) ** 0.5 * sin(radians(turn / 2)) / (1 + 0.015 * middle * t)
    rotation = (-2 * (middle**7 / (middle**7 + 25**7)) ** 0.5
                * sin(radians(60 * exp(-(((hue - 275) / 25) ** 2)))))
    return (dl**2 + dc**2 + dh**2 + rotation * dc * dh) ** 0.5


def contrast(first: str, second: str) -> float:
    dark, light = sorted(float(TO_XYZ[1] @ linear(each)) for each in (first, second))
    return (light + 0.05) / (dark + 0.05)


def test_the_formula_is_the_published_one() -> None:
    assert ciede2000((50, 2.6772, -79.7751), (50, 0, -82.7485)) == pytest.approx(2.0425, abs=1e-4)
    assert ciede2000((50, -1.3802, -84.2814), (50, 0, -82.7485)) == pytest.approx(1.0, abs=1e-4)
    assert ciede2000((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514)) == pytest.approx(0.9082, abs=1e-4)


@pytest.mark.parametrize(("colors", "pairs"), [
    (PHASES, list(combinations(PHASES, 2))),
    (p.PART_COLORS, list(combinations(p.PART_COLORS, 2))),
    (p.GPU_COLORS, [("kernel", "graphs"), ("graphs", "copy"), ("kernel", "copy")]),
    (p.FRAME_COLORS, list(combinations(p.FRAME_COLORS, 2))),
    (KERNELS, list(pairwise([*KERNELS, "kernel 0"]))),
    # Of the timeline: what lies beside or below each other in a lane.
    (TIMELINE, [("call", "wait"), ("call", "event"), ("call", "compile"), ("compile", "pass"), ("event", "wait"),
                ("event", "compile"), ("graph", "event"), ("copy", "memset"), ("cell", "range")]),
    (KERNELS | {"copy": p.COPY_COLOR}, [(kernel, "copy") for kernel in KERNELS]),
], ids=["phases", "parts of a cell", "GPU", "frames", "kernels", "timeline", "copies"])
@pytest.mark.parametrize("eyes", EYES)
def test_colors_that_mean_different_things_differ(colors: dict[str, str], pairs: list[tuple[str, str]],
                                                  eyes: str) -> None:
    alike = [(one, other, round(apart, 1)) for one, other in pairs
             if (apart := ciede2000(lab(colors[one], eyes), lab(colors[other], eyes))) < 10]
    assert alike == []


def test_text_on_a_color_can_be_read() -> None:
    everything = {*PHASES.values(), *KERNELS.values(), *p.PART_COLORS.values(), *p.GPU_COLORS.values(),
                  *p.FRAME_COLORS.values(), *TIMELINE.values(), *(
                      f"#{red:02x}{green:02x}{blue:02x}" for red in range(0, 256, 15)
                      for green in range(0, 256, 15) for blue in range(0, 256, 15))}
    dark, light = p.INKS
    inks = {color: dark if TO_XYZ[1] @ linear(color) > p.INK_FROM else light for color in everything}
    assert [color for color, ink in inks.items() if contrast(color, ink) < 4.5] == []


def test_bars_are_seen_on_both_grounds() -> None:
    shown = {*PHASES.values(), *KERNELS.values(), *p.PART_COLORS.values(), *p.GPU_COLORS.values(), *TIMELINE.values(),
             *p.FRAME_COLORS.values()}
    assert [color for color in shown if min(contrast(color, ground) for ground in GROUNDS) < 1.4] == []
