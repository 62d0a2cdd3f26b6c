from __future__ import annotations

import pytest
from handmade import MS, Script

from kernelscope.errors import UnknownKernelError
from kernelscope.views.inspector.model import (
    Kernel,
    find_kernels,
    find_specialization,
    inspect_kernels,
    sort_kernels,
)


@pytest.fixture
def kernels() -> list[Kernel]:
    script = Script()
    for name, regs in (("outer.axpy", 16), ("axpy", None), ("axpy", 40), ("total", 8)):
        at = script.kernel(name)
        script.specialization(at, regs=regs)
    script.specialization(3, "(int64,)", regs=4)
    script.configuration()
    for at in (3, 3, 0):
        script.launch(at, specialization=at)
    script.compilation(1, 50 * MS, specialization_id=1)
    return inspect_kernels(script.recording())


def test_by_name_last_part_and_row(kernels: list[Kernel]) -> None:
    def rows(wanted: str) -> list[int]:
        return sorted(each.dispatcher_id for each in find_kernels(kernels, wanted))

    assert rows("axpy") == [1, 2]  # a whole name is preferred
    assert rows("outer.axpy") == [0]
    assert rows("2") == [2]
    with pytest.raises(UnknownKernelError, match=r"no recorded kernel 'nope'; known: 'total', 'outer.axpy', 'axpy'$"):
        find_kernels(kernels, "nope")
    with pytest.raises(UnknownKernelError, match="known: none, since nothing was recorded"):
        find_kernels([], "nope")


def test_many_names_are_cut() -> None:
    script = Script()
    for at in range(40):
        script.kernel(f"kernel_{at}")
    with pytest.raises(UnknownKernelError, match="'kernel_11' and 28 more$"):
        find_kernels(inspect_kernels(script.recording()), "nope")


def test_a_specialization_by_number(kernels: list[Kernel]) -> None:
    kernel, found = find_specialization(find_kernels(kernels, "total"), 2)
    assert (kernel.name, found.number, found.signature) == ("total", 2, "(int64,)")
    with pytest.raises(UnknownKernelError, match="no specialization 3 of 'total'; known: 1 to 2"):
        find_specialization(find_kernels(kernels, "total"), 3)
    with pytest.raises(UnknownKernelError, match=r"name one of 2, or its row: 'axpy' \(row 1\), 'axpy' \(row 2\)"):
        find_specialization(find_kernels(kernels, "axpy"), 1)
    with pytest.raises(UnknownKernelError, match="no kernel was recorded"):
        find_specialization([], 1)


def test_sorting(kernels: list[Kernel]) -> None:
    def rows(by: str) -> list[int]:
        return [each.dispatcher_id for each in sort_kernels(kernels, by)]  # type: ignore[arg-type]

    assert rows("launches")[:2] == [3, 0]
    assert rows("compile")[0] == 1
    assert rows("registers") == [2, 0, 3, 1]
