"""`kernelscope.cubin` on cubins that were compiled for real, compared with what the disassembler and the driver say."""

from __future__ import annotations

import random
import re
import struct
import tracemalloc

import pytest
from many_cubins import CAPABILITIES, KERNELS, compiled, cubin

from kernelscope import cubin as kernelscope_cubin
from kernelscope.cubin import operations, read
from kernelscope.errors import CubinError

_SPILL = re.compile(r"\b(STL|LDL)((?:\.\w+)*) .*SpillRefill")


def spilled_bytes(sass: str) -> tuple[int, int]:
    """What nvdisasm marks as spilled: bytes stored, and loaded."""
    found = {"STL": 0, "LDL": 0}
    for match in _SPILL.finditer(sass):
        found[match[1]] += next((int(bits) // 8 for bits in match[2].split(".") if bits.isdigit()), 4)
    return found["STL"], found["LDL"]


@pytest.mark.parametrize(("name", "capability"), [
    *((name, "9.0") for name in KERNELS if "spilled" in name or name in ("local", "plain")),
    *(("local_and_spilled", capability) for capability in CAPABILITIES if capability != "9.0"),
])
def test_spills_are_those_that_the_disassembler_marks(name, capability):
    code = cubin(name, capability)
    facts = read(code)
    kernel, = facts.kernels
    assert facts.compute_capability == CAPABILITIES[capability][:2]
    assert (kernel.spill_store_bytes, kernel.spill_load_bytes) == spilled_bytes(kernelscope_cubin.disassemble(code))
    assert bool(kernel.spill_store_bytes) == ("spilled" in name)


@pytest.mark.parametrize("name", KERNELS)
def test_sizes_are_those_that_the_driver_reports(name):
    kernel = compiled(name)
    capability, = kernel._codelibrary._cufunc_cache
    found = read(next(iter(kernel._codelibrary._cubin_cache.values())).code).kernel(kernel.entry_name)
    attributes = kernel._codelibrary._cufunc_cache[capability].attrs
    assert found is not None
    assert (found.regs, found.local_bytes, found.static_shared_bytes, found.const_bytes) == (
        attributes.regs, attributes.local, attributes.shared, attributes.const)
    assert found.max_threads == (128 if name == "bounded" else None)


_NAMES = {"FADD": "fadd", "FMUL": "fmul", "FFMA": "ffma", "DADD": "dadd", "DMUL": "dmul", "DFMA": "dfma",
          "HADD2": "hadd", "HMUL2": "hmul", "HFMA2": "hfma", **dict.fromkeys(
              ("IADD", "IADD3", "VIADD", "IMAD", "LEA", "LOP3", "ISETP", "SHF", "IABS", "IMNMX", "VIMNMX", "IDP",
               "POPC", "FLO"), "integer")}


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("name", ["plain", "local", "shared", "spilled_doubles"])
def test_operations_are_those_that_the_disassembler_names(name, capability):
    code = cubin(name, capability)
    names = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9]+)", kernelscope_cubin.disassemble(code))
    kinds, = operations(code).values()
    assert [None if kind is None else kind[0] for kind in kinds] == [_NAMES.get(each) for each in names]


def test_static_shared_memory_is_without_what_the_system_takes():
    assert {name: read(cubin("shared", name)).kernels[0].static_shared_bytes for name in CAPABILITIES} == dict.fromkeys(
        CAPABILITIES, 2048)


def test_line_information_is_seen():
    assert read(cubin("with_lines")).has_line_info
    assert not read(cubin("local")).has_line_info


def test_a_kernel_that_is_not_there():
    assert read(cubin("plain")).kernel("other") is None


def _with_cuda_version(code: bytes, version: int) -> bytes:
    """The cubin as if that CUDA's ptxas had written it: attribute 0x37, a word."""
    at = code.index(bytes([4, 0x37, 4, 0]))
    return code[:at + 4] + struct.pack("<I", version) + code[at + 8:]


@pytest.mark.parametrize(("version", "known"), [(120, False), (125, False), (126, True), (130, True)])
def test_spills_are_unknown_where_an_older_ptxas_marks_none(version, known):
    code = _with_cuda_version(cubin("local"), version)
    kernel, = read(code).kernels
    assert (kernel.spill_store_bytes, kernel.spill_load_bytes) == ((0, 0) if known else (None, None))
    # Without local memory there is nothing to spill to, whoever made it.
    plain, = read(_with_cuda_version(cubin("plain"), version)).kernels
    assert (plain.spill_store_bytes, plain.spill_load_bytes) == (0, 0)


def test_an_instruction_that_is_not_known_makes_spills_unknown():
    code = cubin("spilled")
    at = code.index(bytes([4, 0x55])) + 4
    offset, = struct.unpack_from("<I", code, at + 4)
    text = nvdisasm_text_offset(code)
    assert struct.unpack_from("<Q", code, text + offset)[0] & 0xFFF in (0x387, 0x983)
    changed = bytearray(code)
    changed[text + offset] ^= 0xFF
    kernel, = read(bytes(changed)).kernels
    assert (kernel.spill_store_bytes, kernel.spill_load_bytes) == (None, None)


def nvdisasm_text_offset(code: bytes) -> int:
    """Where the kernel's instructions begin in the file."""
    start, = struct.unpack_from("<Q", code, 40)
    count, names = struct.unpack_from("<HH", code, 60)
    names_at, = struct.unpack_from("<Q", code, start + names * 64 + 24)
    for section in range(count):
        name, = struct.unpack_from("<I", code, start + section * 64)
        if code[names_at + name:].startswith(b".text."):
            return struct.unpack_from("<Q", code, start + section * 64 + 24)[0]
    raise AssertionError("no code")


@pytest.mark.parametrize(("code", "message"), [
    (b"", "0 bytes that begin with b'' are no cubin"),
    (b"PTX", "no cubin: no ELF file"),
    (b"\x7fELF" + b"\0" * 200, "cubin"),
])
def test_what_is_no_cubin_is_refused(code, message):
    with pytest.raises(CubinError, match=re.escape(message)):
        read(code)


def test_another_machines_program_is_refused():
    code = bytearray(cubin("plain"))
    struct.pack_into("<H", code, 18, 62)
    with pytest.raises(CubinError, match="its machine is EM_X86_64, not EM_CUDA"):
        read(bytes(code))


def test_torn_cubins_are_errors():
    code = cubin("spilled")
    for size in range(0, len(code), len(code) // 200):
        with pytest.raises(CubinError):
            read(code[:size])


def test_hostile_cubins_neither_crash_nor_hang():
    """Bytes changed at random, most of them in the headers, where they do most harm."""
    code, chance = cubin("local_and_spilled"), random.Random(4)
    headers, = struct.unpack_from("<Q", code, 40)
    refused = 0
    for _ in range(500):
        changed = bytearray(code)
        for _ in range(chance.choice((1, 1, 4, 40))):
            first, last = chance.choice(((0, 64), (headers, len(code)), (0, len(code))))
            changed[min(chance.randrange(first, max(last, first + 1)), len(code) - 1)] = chance.randrange(256)
        try:
            read(bytes(changed))
        except CubinError:
            refused += 1
    assert 50 < refused < 499


def test_a_table_of_too_many_sections_is_refused():
    code = bytearray(cubin("plain"))
    struct.pack_into("<HH", code, 60, 60_000, 1)
    with pytest.raises(CubinError, match="60000 sections"):
        read(bytes(code))


def test_sections_that_share_their_bytes_do_not_multiply_them():
    """A small file whose sections all claim to be the whole of it."""
    code = bytearray(cubin("plain") + b"\0" * 1_000_000)
    start, = struct.unpack_from("<Q", code, 40)
    count, = struct.unpack_from("<H", code, 60)
    table = code[start:start + count * 64]
    places = [struct.unpack_from("<Q", table, at * 64 + 24)[0] for at in range(count)]
    text = places.index(nvdisasm_text_offset(code))
    struct.pack_into("<QQ", table, text * 64 + 24, 0, len(code))
    everywhere = table + table[text * 64:text * 64 + 64] * 5_000
    struct.pack_into("<Q", code, 40, len(code))
    struct.pack_into("<H", code, 60, count + 5_000)
    given = bytes(code + everywhere)
    tracemalloc.start()
    try:
        with pytest.raises(CubinError, match="have more than its"):
            read(given)
        assert tracemalloc.get_traced_memory()[1] < 20 * len(given)
    finally:
        tracemalloc.stop()
