from __future__ import annotations

import pytest

from kernelscope.units import MISSING, brief, count, counted, duration, percent, short_name, size


@pytest.mark.parametrize(("value", "text"), [
    (None, MISSING), (0, "0 ns"), (999, "999 ns"), (999.6, "1.00 µs"), (1_000, "1.00 µs"), (12_345, "12.3 µs"),
    (123_456, "123 µs"), (999_400, "999 µs"), (999_600, "1.00 ms"), (1_234_567, "1.23 ms"), (9_996_000, "10.0 ms"),
    (99_960_000, "100 ms"), (999_700_000, "1.00 s"), (4_560_000_000, "4.56 s"), (123_000_000_000, "123 s"),
    (4_321_000_000_000, "4,321 s"),
])
def test_durations_have_three_digits_and_a_unit(value: float | None, text: str) -> None:
    assert duration(value) == text


@pytest.mark.parametrize(("value", "text"), [
    (None, MISSING), (0, "0 B"), (96, "96 B"), (1_024, "1.0 KiB"), (4_200, "4.1 KiB"), (1024 * 1024 - 1, "1.0 MiB"),
    (5 * 2**20, "5.0 MiB"), (3 * 2**30, "3.0 GiB"), (4096 * 2**30, "4,096.0 GiB"),
])
def test_sizes_are_binary(value: int | None, text: str) -> None:
    assert size(value) == text


@pytest.mark.parametrize(("value", "text"), [
    (None, MISSING), (0, "0 %"), (0.0004, "< 0.1 %"), (0.004, "0.4 %"), (0.0994, "9.9 %"), (0.0996, "10 %"),
    (0.62, "62 %"), (14.52, "1,452 %"),
])
def test_percents(value: float | None, text: str) -> None:
    assert percent(value) == text


def test_counts() -> None:
    assert (count(1_234), count(None)) == ("1,234", MISSING)
    assert (counted(1, "launch", "launches"), counted(1_234, "launch", "launches")) == ("1 launch", "1,234 launches")
    assert counted(0, "kernel") == "0 kernels"


@pytest.mark.parametrize(("message", "text"), [
    ("", ""), ("ValueError: x", "ValueError: x"), ("a\n\n  b\tc \n", "a b c"), ("1\n2\n3\n4\n5", "1 2 3 ..."),
])
def test_a_message_of_many_lines_becomes_one_line(message: str, text: str) -> None:
    assert brief(message) == text


@pytest.mark.parametrize(("name", "short"), [
    ("axpy", "axpy"),
    ("make.<locals>.axpy", "axpy"),
    ("void cub::detail::DeviceReduceKernel<Policy<float>, (int)4>(float const*, int)", "DeviceReduceKernel"),
    ("(anonymous namespace)::step(int)", "step"),
    ("void kernel<1>(int)", "kernel"),
    ("HtoD", "HtoD"),
    ("operator()", "operator"),
    ("<<<(((", "<<<((("),
    ("a::", "a::"),
    ("", ""),
    ("__main__::axpy(Array<float, 1, C, mutable, aligned>, long long)", "axpy"), ("(anonymous)", "(anonymous)"),
    ("void at::native::fill<float>(int, float*)", "fill"), ("ampere_sgemm_128x64", "ampere_sgemm_128x64"),
    ("<lambda>", "<lambda>"), ("reduce<int, 4>", "reduce"),
])
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


def test_a_hostile_name_takes_no_long_time() -> None:
    assert len(short_name("a::" + "<(" * 2_000_000)) < 50_000
