"""What is shown of operators: a section of the card, their names beside kernels, and a member of answers."""

from __future__ import annotations

from typing import TypedDict

from kernelscope.features.operators.analyse import operator_summaries, operators_of_kernels
from kernelscope.units import MISSING, count, duration, listed
from kernelscope.views.answer import Many
from kernelscope.views.base import clean, cut
from kernelscope.views.card.blocks import (
    MOST_ROWS,
    Column,
    Row,
    Section,
    Table,
    first_and_folded,
    terminal_columns,
)
from kernelscope.views.card.model import Overview

#: How many operators are named beside a kernel, and kernels beside an operator.
MAX_NAMES = 3


def section(overview: Overview) -> Section | None:
    """Return the operators by the time of the GPU."""
    if overview.is_empty:
        return None
    operators = operator_summaries(overview.recording, overview.phases)
    is_gpu = overview.gpu is not None
    rows = [Row("no operator" if operator.operator is None else clean(operator.operator), {
        "calls": MISSING if operator.calls is None else count(operator.calls), "host": duration(operator.host_ns),
        "launches": count(operator.launches), "launching": duration(operator.launch_ns),
        "gpu": duration(operator.gpu_ns),
    }, place=cut(clean(listed(operator.kernels, MAX_NAMES)))) for operator in operators]
    columns = (
        Column("Calls", "calls"), Column("Host time", "host", width="time"),
        Column("Launches", "launches", "launching", "launching", "time"),
        *([Column("GPU time", "gpu", width="time")] if is_gpu else []))
    terminal = terminal_columns("calls", "host", "launches", "launching", *(["gpu"] if is_gpu else []))
    named = sum(operator.operator is not None for operator in operators)
    return Section("operators", "Operators", count(named), first_and_folded(
        Table(("Operator", ""), tuple(rows[:MOST_ROWS]), columns, terminal), len(rows), "operator"),
        "PyTorch's operators that gave the GPU work: each launch belongs to the innermost; host time is that of the "
        "operator's calls, what they call included")


def kernel_note(overview: Overview, dispatcher_id: int) -> str:
    """Return which operators launched a kernel, the most frequent first; an empty text where none did."""
    operators = overview.result(operators_of_kernels).get(dispatcher_id, ())
    return f"by {cut(clean(listed(operators, MAX_NAMES)))}" if operators else ""


class OperatorMembers(TypedDict):
    """An operator of a framework."""

    operator: str | None
    calls: int | None
    host_ns: int | None
    launches: int
    launch_ns: int | None
    gpu_ns: int | None
    kernels: Many[str]


#: The type of the member ``operators``.
Member = Many[OperatorMembers]


def member(overview: Overview) -> Many[OperatorMembers]:
    """Return the operators, for programs."""
    return Many(operator_summaries(overview.recording, overview.phases), lambda operator: {
        "operator": operator.operator, "calls": operator.calls, "host_ns": operator.host_ns,
        "launches": operator.launches, "launch_ns": operator.launch_ns, "gpu_ns": operator.gpu_ns,
        "kernels": Many(operator.kernels)})
