"""A what-if as text and as a card; both say the same."""

from __future__ import annotations

from kernelscope.analysis.units import counted, duration, size
from kernelscope.graphs.result import Comparison, Timing, Unequal, WhatIf
from kernelscope.recording.model import DRY_RUN_NOTICE
from kernelscope.renderers.base import clean, escape, shorten
from kernelscope.renderers.elements import table_of, two
from kernelscope.renderers.style import style

_MOST_LISTED = 5
_NAME_WIDTH = 60
# Four columns of two short words each fit where the card's own tables would scroll.
_STYLE = """
.kscope .ks-whatif table.ks-table :is(th, td) { white-space: normal; }
"""
NOTICE = f"{DRY_RUN_NOTICE}: there are no times and no results to compare"


def text(result: WhatIf) -> str:
    """Return the result as lines of text."""
    times = _rows(result)
    rows = [("", "eager", "as a graph", "difference"), *times] if times else []
    widths = [max((len(row[place]) for row in rows), default=0) for place in range(4)]
    table = ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    notice = [f"*** {NOTICE} ***"] if result.is_dry_run else []
    return "\n".join([title(result), *notice, *table, *(f"  {each}" for each in sentences(result))])


def card(result: WhatIf) -> str:
    """Return the result as a self-contained fragment of HTML, for notebooks."""
    notice = f'<div class="ks-notice">{escape(NOTICE)}</div>' if result.is_dry_run else ""
    columns = [("", "", ""), ("", "eager", "median, interval"), ("", "as a graph", "median, interval"),
               ("", "difference", "")]
    body = [_card_row(name, of, compared) for name, of, compared in (
        ("host", "call to return", result.host), ("GPU", "first to last", result.gpu)) if compared is not None]
    table = table_of(columns, body) if body else ""
    said = "".join(f"<li>{escape(each)}</li>" for each in sentences(result))
    head = f'<div class="ks-top"><span class="ks-title">{escape(title(result))}</span></div>{notice}'
    return (f'<style>{style()}{_STYLE}</style><div class="kscope"><div class="ks-whatif">{head}'
            f'{table}<ul class="ks-list">{said}</ul></div></div>')


def title(result: WhatIf) -> str:
    """Return what was compared."""
    work = counted(result.launches, "launch", "launches")
    copies = f", and {counted(result.copies, 'device copy', 'device copies')}" if result.copies else ""
    listed = ", ".join(shorten(clean(name), _NAME_WIDTH) for name in result.kernels[:_MOST_LISTED])
    more = f" and {len(result.kernels) - _MOST_LISTED} more" if len(result.kernels) > _MOST_LISTED else ""
    what = clean(result.label) if result.rounds is None else f"a round of {clean(result.label)}"
    return f"What if {what} were a graph: {work} of {listed}{more}{copies}"


def sentences(result: WhatIf) -> list[str]:
    """Return what there is to say besides the times."""
    said = _captured(result) if result.is_dry_run else _compared(result)
    if result.rounds is not None:
        made = f"{clean(result.label)} made {result.rounds:,} such rounds one after another."
        said.append(made[:1].upper() + made[1:])
    if result.streams > 1:
        said.append(f"The launches went to {result.streams} streams. The graph has them one after the other: what "
                    "could overlap does not.")
    if result.left_out:
        where = "outside of the round" if result.rounds is not None else "before the first launch or after the last"
        said.append(f"Left out, because it comes {where}: {', '.join(clean(each) for each in result.left_out)}.")
    said += [clean(each) for each in result.notes]
    if result.samples:
        said.append(f"Medians of {result.samples} samples, taken in turn, with bootstrap intervals of 95 %.")
    if result.run_again:
        said.append(clean(result.run_again))
    return said


def _captured(result: WhatIf) -> list[str]:
    """What there is to say of a graph that no GPU has launched."""
    on = f", on {counted(result.arrays, 'array')} of {size(result.compared_bytes)}" if result.arrays else ""
    return [f"Captured and instantiated: {counted(result.nodes, 'node')}{on}.",
            "What the graph would save, and whether it gives the same results, takes a GPU to tell."]


def _compared(result: WhatIf) -> list[str]:
    said = [_equality(result)]
    if result.unequal:
        said += [_unequal(each) for each in result.unequal[:_MOST_LISTED]]
        if len(result.unequal) > _MOST_LISTED:
            said.append(f"and {counted(len(result.unequal) - _MOST_LISTED, 'more array')}")
    made = (f"Capturing the graph took {duration(result.capture_ns)}, and instantiating it "
            f"{duration(result.instantiate_ns)}")
    replays = result.replays_to_pay_off
    if replays is None:
        return [*said, f"{made}; no host time is saved that would pay for it."]
    return [*said, f"{made}: paid off after {counted(replays, 'launch', 'launches')} of the graph."]


def _rows(result: WhatIf) -> list[tuple[str, str, str, str]]:
    return [(name, *_cells(compared)) for name, compared in (("host", result.host), ("GPU", result.gpu))
            if compared is not None]


def _cells(compared: Comparison) -> tuple[str, str, str]:
    return _interval(compared.eager), _interval(compared.graph), _difference(compared)


def _card_row(name: str, of: str, compared: Comparison) -> str:
    """A row of the card's table; the second line of its cells is small."""
    saved, _, faster = _difference(compared).partition(", ")
    times = "".join(two(duration(each.median_ns), f"{duration(each.low_ns)} to {duration(each.high_ns)}")
                    for each in (compared.eager, compared.graph))
    return f'<td class="ks-left">{escape(name)} <small>{escape(of)}</small></td>{times}{two(saved, faster)}'


def _interval(timing: Timing) -> str:
    return f"{duration(timing.median_ns)} ({duration(timing.low_ns)} to {duration(timing.high_ns)})"


def _difference(compared: Comparison) -> str:
    if compared.saved.covers_zero:
        return "no difference seen"
    slower, faster = compared.eager.median_ns, compared.graph.median_ns
    if compared.saved.median_ns < 0:
        return f"{duration(-compared.saved.median_ns)} longer as a graph"
    times = f", {slower / faster:.1f} times faster" if faster > 0 else ""
    return f"{duration(compared.saved.median_ns)} saved{times}"


def _equality(result: WhatIf) -> str:
    if result.equal is None:
        return "Results were not compared: the launches got no device array."
    what = f"{counted(result.arrays, 'array')}, {size(result.compared_bytes)}"
    if result.equal:
        return f"Results are equal bit for bit ({what})."
    why = "" if result.eager_repeats else (" Running the launches eagerly a second time gave other results too, so "
                                           "that the graph need not be the reason.")
    return f"Results are NOT equal: {len(result.unequal)} of {what}.{why}"


def _unequal(each: Unequal) -> str:
    gap = "" if each.largest is None else f", by at most {each.largest:.3g}"
    return f"{clean(each.name)}: {each.differing:,} of {counted(each.elements, 'element')} differ{gap}"
