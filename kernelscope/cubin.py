"""What a cubin says about its kernels (registers, memory, launch bounds, spills), and its SASS by ``nvdisasm``."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import math
import os
import re
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar, cast

from kernelscope.errors import CubinError, DisassemblerError

# What a cubin says about its kernels: registers, memory, launch bounds and spilled registers.
#
# A cubin is an ELF file. NVIDIA documents its sections only in part; what is read here:
#
# - ``.nv.info``: registers and stack frame of each function, as (symbol, value).
# - ``.nv.info.NAME``: launch bounds, the CUDA version of the compiler, and annotations of single instructions.
# - ``.nv.shared.NAME``, ``.nv.constant3``: static shared memory of a kernel, constant variables.
#
# Registers, stack frames, static shared memory and spills were compared with what ``ptxas -v`` of CUDA 12.9
# prints, for 11 kernels and the compute capabilities 7.5 to 12.0: equal in all 77 cases. The file is not trusted:
# every offset is checked.

_T = TypeVar("_T")

# A file that is made to harm: with these, and sections that do not overlap, reading takes time in line with its size.
_MOST_SECTIONS = _MOST_FUNCTIONS = 10_000
_LONGEST_NAME = 16_384
#: In a symbol's ``st_other``: the function is a kernel.
_ENTRY_FLAG = 0x10
#: From 9.0 on, ``.nv.shared`` counts the KiB that the system takes of each block.
_RESERVED_SHARED = 1024
_MOST_THREADS = 1024

# Attribute numbers in .nv.info, and the format of an attribute that brings data along.
_SIZED = 4
_MAX_THREADS, _FRAME_SIZE, _REGISTERS, _CUDA_VERSION, _ANNOTATIONS = 0x05, 0x11, 0x2F, 0x37, 0x55
#: The kind of annotation that marks an instruction which stores or loads a spilled register.
_SPILL = 1
#: The first CUDA version whose ptxas writes annotations: 12.5's does not, 12.6's does.
_ANNOTATES_SINCE = (12, 6)

#: Sections with source lines or debug information.
_LINES = (".debug_line", ".debug_info")

# Instructions of compute capability 7.0 and newer have 16 bytes: the low 12 bits are the operation, bits 73 to 75 its
# width.
INSTRUCTION_BYTES = 16
_OPERATIONS = {0x387: "store", 0x983: "load"}  # STL, LDL
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 8, 6: 16}  # U8, S8, U16, S16, 32, 64, 128 bits


#: What instructions do, by the low 9 bits of the operation (the other three say where the operands are), as the metrics
#: of Nsight Compute name it, and how many of these operations one is: taken from ``nvdisasm -hex`` of CUDA 13 for the
#: compute capabilities 8.0 to 12.1.
_KINDS = {
    0x20: ("fmul", 1), 0x21: ("fadd", 1), 0x23: ("ffma", 1), 0x4A: ("fmul", 2), 0x4B: ("fadd", 2), 0x49: ("ffma", 2),
    0x28: ("dmul", 1), 0x29: ("dadd", 1), 0x2B: ("dfma", 1), 0x30: ("hadd", 1), 0x31: ("hfma", 1), 0x32: ("hmul", 1),
    **dict.fromkeys((0x0C, 0x0F, 0x10, 0x11, 0x12, 0x13, 0x14, 0x17, 0x19, 0x24, 0x25, 0x26, 0x27, 0x36, 0x46, 0x48,
                     0x100, 0x109), ("integer", 1)),
}
#: An operation whose number another one took over, with the compute capability from which on.
_REUSED = 0x35, 100, ("hfma", 1), ("integer", 1)


@dataclass(frozen=True)
class KernelCode:
    """One kernel in a cubin.

    Attributes
    ----------
    name : str
        Its mangled name.
    regs : int or None
        Registers a thread.
    local_bytes : int or None
        Local memory a thread: the kernel's stack frame.
    static_shared_bytes : int
        Shared memory a block, declared in the kernel.
    const_bytes : int
        Constant variables of the cubin.
    max_threads : int or None
        Threads a block at most, where the kernel has launch bounds.
    spill_store_bytes, spill_load_bytes : int or None
        Bytes a thread that the instructions of the kernel, and of the functions beside it that it may call, store for
        want of registers and load back, each instruction counted once. None where the cubin does not say: it has local
        memory, and was made by a CUDA older than 12.6.
    """

    name: str
    regs: int | None
    local_bytes: int | None
    static_shared_bytes: int
    const_bytes: int
    max_threads: int | None
    spill_store_bytes: int | None
    spill_load_bytes: int | None


@dataclass(frozen=True)
class CubinFacts:
    """What a cubin says.

    Attributes
    ----------
    compute_capability : tuple of int
        Major and minor.
    kernels : tuple of KernelCode
        In the order of the symbol table.
    has_line_info : bool
        Whether it names source lines, and with them the paths of the source files.
    """

    compute_capability: tuple[int, int]
    kernels: tuple[KernelCode, ...]
    has_line_info: bool

    def kernel(self, name: str) -> KernelCode | None:
        """Return the kernel of this mangled name; None where there is none."""
        return next((each for each in self.kernels if each.name == name), None)


def read(cubin: bytes) -> CubinFacts:
    """Read a cubin.

    Raises
    ------
    CubinError
        It is torn, or no cubin.
    """
    return _read(cubin, _metadata)


def _read(cubin: bytes, take: Callable[[_Image], _T]) -> _T:
    # Loaded at the first cubin: probes need this module when recording begins.
    from elftools.common.exceptions import ELFError

    try:
        return take(_Image(cubin))
    except (ELFError, struct.error, ValueError, KeyError, OverflowError, AttributeError, AssertionError) as error:
        # pyelftools lets some internal errors through where a header is invalid.
        raise CubinError(f"the cubin of {len(cubin)} bytes is torn: {type(error).__name__}: {error}") from None


def operations(cubin: bytes) -> dict[str, list[tuple[str, int] | None]]:
    """Return what each instruction of each function does: kind and number of operations, None for other kinds.

    Kinds are ``fadd``, ``fmul``, ``ffma``, the same with ``d`` and ``h`` for double and half precision, and
    ``integer``, as in Nsight Compute's ``sm__sass_thread_inst_executed_op_fadd_pred_on``. Instructions are in the
    order of the code, 16 bytes each.

    Raises
    ------
    CubinError
        It is torn, or no cubin.
    """
    return _read(cubin, _operations)


def _operations(image: _Image) -> dict[str, list[tuple[str, int] | None]]:
    number, since, before, after = _REUSED
    kinds = {**_KINDS, number: after if image.capability >= since else before}
    return {name.removeprefix(".text."): [kinds.get(low & 0x1FF) for low, _ in struct.iter_unpack(
                "<QQ", section.body[:len(section.body) // INSTRUCTION_BYTES * INSTRUCTION_BYTES])]
            for name, section in image.by_name.items() if name.startswith(".text.")}


class _Section(NamedTuple):
    name: str
    kind: str | int
    size: int
    link: int
    body: bytes


class _Symbol(NamedTuple):
    """A symbol; what is no function has no name here. Functions can be part of another one's section of code."""

    name: str
    within: str
    is_kernel: bool


class _Image:
    """The ELF file's sections and symbols, each inside the file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._stream = io.BytesIO(data)
        if data[:4] != b"\x7fELF":
            raise CubinError(f"{len(data)} bytes that begin with {data[:4]!r} are no cubin: no ELF file")
        from elftools.elf.elffile import ELFFile

        elf: Any = ELFFile(self._stream)
        self.header: Any = elf.header
        if elf.elfclass != 64 or not elf.little_endian or self.header["e_machine"] != "EM_CUDA":
            raise CubinError(f"an ELF file of {len(data)} bytes is no cubin: its machine is "
                             f"{self.header['e_machine']}, not EM_CUDA")
        self._structs: Any = elf.structs
        self.sections = self._read_sections()
        self.by_name = {section.name: section for section in self.sections}
        self.symbols = self._read_symbols()

    @property
    def capability(self) -> int:
        """Return the compute capability, such as 90; the eighth version of the format moved it up by a byte."""
        shift = 8 if self.header["e_ident"]["EI_ABIVERSION"] >= 8 else 0
        return int(self.header["e_flags"] >> shift & 0xFF)

    def attributes(self, section: _Section) -> Iterator[tuple[int, bytes]]:
        """Return the attributes of a ``.nv.info`` section that bring data along: number and data."""
        at = 0
        while at + 4 <= len(section.body):
            kind, number, size = struct.unpack_from("<BBH", section.body, at)
            at += 4
            if kind == _SIZED:
                if at + size > len(section.body):
                    raise CubinError(f"section {section.name!r} of the cubin is cut off in attribute {number:#x}")
                yield number, section.body[at:at + size]
                at += size

    def _read_sections(self) -> list[_Section]:
        offset, size = int(self.header["e_shoff"]), int(self.header["e_shentsize"])
        count, names_at = int(self.header["e_shnum"]), int(self.header["e_shstrndx"])
        if size != self._structs.Elf_Shdr.sizeof() or not names_at < count <= _MOST_SECTIONS:
            raise CubinError(f"the cubin's table of {count} sections of {size} bytes each is none")
        segments = int(self.header["e_phnum"]) * int(self.header["e_phentsize"])
        self._check_inside(int(self.header["e_phoff"]) if segments else 0, segments)
        headers = [self._parse(self._structs.Elf_Shdr, offset + at * size) for at in range(count)]
        names = self._inside(headers[names_at]["sh_offset"], headers[names_at]["sh_size"])
        sections: list[_Section] = []
        left = len(self._data)
        for header in headers:
            name, kind = _text(names, header["sh_name"]), header["sh_type"]
            read = kind in ("SHT_SYMTAB", "SHT_STRTAB") or name.startswith((".nv.info", ".text."))
            held = kind not in ("SHT_NULL", "SHT_NOBITS")
            if held:
                self._check_inside(header["sh_offset"], header["sh_size"])
            body = self._inside(header["sh_offset"], header["sh_size"]) if held and read else b""
            # Sections may have bytes in common, as debuggers' copies do; those that are read here have not.
            left -= len(body)
            if left < 0:
                raise CubinError(f"the sections of the cubin have more than its {len(self._data)} bytes")
            sections.append(_Section(name, kind, int(header["sh_size"]), int(header["sh_link"]), body))
        return sections

    def _read_symbols(self) -> list[_Symbol]:
        table = next((section for section in self.sections if section.kind == "SHT_SYMTAB"), None)
        if table is None or table.link >= len(self.sections):
            raise CubinError("the cubin has no symbol table")
        names = self.sections[table.link].body
        whole = len(table.body) // 24 * 24
        symbols: list[_Symbol] = []
        functions = 0
        for name, info, other, section, *_ in struct.iter_unpack("<IBBHQQ", table.body[:whole]):
            is_function = info & 0xF == 2
            functions += is_function
            if functions > _MOST_FUNCTIONS:
                raise CubinError(f"the cubin has more than {_MOST_FUNCTIONS} functions")
            within = self.sections[section].name if is_function and section < len(self.sections) else ""
            symbols.append(_Symbol(_text(names, name) if is_function else "", within.removeprefix(".text."),
                                   is_function and bool(other & _ENTRY_FLAG)))
        return symbols

    def _parse(self, layout: Any, offset: int) -> Any:
        if not 0 <= offset <= len(self._data) - layout.sizeof():
            raise CubinError(f"the cubin of {len(self._data)} bytes is cut off: its table of sections begins at "
                             f"byte {self.header['e_shoff']}")
        from elftools.common.utils import struct_parse

        return struct_parse(layout, self._stream, offset)

    def _inside(self, offset: int, size: int) -> bytes:
        self._check_inside(offset, size)
        return self._data[offset:offset + size]

    def _check_inside(self, offset: int, size: int) -> None:
        if offset + size > len(self._data):
            raise CubinError(f"the cubin of {len(self._data)} bytes is cut off: {size} bytes at {offset} are missing")


def _metadata(image: _Image) -> CubinFacts:
    registers: dict[str, int] = {}
    frames: dict[str, int] = {}
    largest: dict[str, int] = {}  # of the functions in a section: one can have others inside
    whole = image.by_name.get(".nv.info")
    for number, value in image.attributes(whole) if whole is not None else ():
        if number in (_REGISTERS, _FRAME_SIZE) and len(value) >= 8:
            at, amount = struct.unpack_from("<II", value)
            symbol = image.symbols[at] if at < len(image.symbols) else _Symbol("", "", False)
            if number == _REGISTERS:
                registers[symbol.name] = amount
            else:
                frames[symbol.name] = amount
                largest[symbol.within] = max(amount, largest.get(symbol.within, 0))
    kernels = list(dict.fromkeys(symbol.name for symbol in image.symbols if symbol.is_kernel and symbol.name))
    sections = [name.removeprefix(".text.") for name in image.by_name if name.startswith(".text.")]
    spills = {name: _spills(image, name, largest.get(name)) for name in {*sections, *kernels}}
    beside = _sum([spills[name] for name in {*sections}.difference(kernels)])
    constants = image.by_name.get(".nv.constant3")
    found: list[KernelCode] = []
    for name in kernels:
        stores, loads = _sum([spills[name], beside]) or (None, None)
        found.append(KernelCode(
            name=name,
            regs=registers.get(name),
            local_bytes=frames.get(name),
            static_shared_bytes=_shared_bytes(image, name),
            const_bytes=constants.size if constants is not None else 0,
            max_threads=_bound(image, name),
            spill_store_bytes=stores,
            spill_load_bytes=loads,
        ))
    major, minor = divmod(image.capability, 10)
    return CubinFacts((major, minor), tuple(found), not image.by_name.keys().isdisjoint(_LINES))


def _spills(image: _Image, name: str, frame: int | None) -> tuple[int, int] | None:
    """Return the bytes that annotated instructions store and load; None if that cannot be known."""
    if frame == 0:
        return 0, 0
    info, code = image.by_name.get(f".nv.info.{name}"), image.by_name.get(f".text.{name}")
    if info is None or code is None:
        return None
    annotates = False
    moved = {"store": 0, "load": 0}
    for number, value in image.attributes(info):
        if number == _CUDA_VERSION and len(value) >= 4:
            annotates = divmod(struct.unpack_from("<I", value)[0], 10) >= _ANNOTATES_SINCE
        elif number == _ANNOTATIONS:
            for kind, offset in struct.iter_unpack("<II", value[:len(value) // 8 * 8]):
                if kind != _SPILL:
                    continue
                instruction = code.body[offset:offset + INSTRUCTION_BYTES]
                if len(instruction) < INSTRUCTION_BYTES:
                    raise CubinError(f"an annotation of the cubin is for byte {offset} of {name!r}, which has "
                                     f"{len(code.body)}")
                low, high = struct.unpack("<QQ", instruction)
                operation, width = _OPERATIONS.get(low & 0xFFF), _WIDTHS.get(high >> 9 & 7)
                if operation is None or width is None:
                    return None  # of an instruction set that came after this was written
                moved[operation] += width
    return (moved["store"], moved["load"]) if annotates else None


def _sum(parts: list[tuple[int, int] | None]) -> tuple[int, int] | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return sum(part[0] for part in known), sum(part[1] for part in known)


def _shared_bytes(image: _Image, name: str) -> int:
    section = image.by_name.get(f".nv.shared.{name}")
    size = 0 if section is None else section.size
    return size - _RESERVED_SHARED if image.capability >= 90 and size >= _RESERVED_SHARED else size


def _bound(image: _Image, name: str) -> int | None:
    info = image.by_name.get(f".nv.info.{name}")
    for number, value in image.attributes(info) if info is not None else ():
        if number == _MAX_THREADS and len(value) >= 12:
            x, y, z = struct.unpack_from("<III", value)
            if 1 <= x * y * z <= _MOST_THREADS:
                return x * y * z
    return None


def _text(table: bytes, offset: int) -> str:
    """Return a text of a string table; empty if it is not wholly inside, or longer than any name."""
    end = table.find(b"\0", offset, offset + _LONGEST_NAME)
    return "" if end < 0 else table[offset:end].decode("utf-8", "replace")


# NVIDIA's disassembler ``nvdisasm``: where it is, and machine code as SASS with source lines.
#
# Machine code can come from somebody else's file, and may be made to harm: the program runs with limits on
# memory, time and output, in a separate session that is killed as a whole.

#: What to do where there is none.
GET = ("pip install 'kernelscope[sass]' brings NVIDIA's nvdisasm; one of a CUDA toolkit on the PATH, or in CUDA_HOME, "
       "does as well")

# Code sections only, with the source lines of inlined functions too.
_OPTIONS = ("-c", "-gi")
_TIMEOUT_S = 60.0
#: What it may allocate, and what it may print: a large kernel takes some hundred MB, and prints some ten.
MAX_MEMORY_BYTES = 4 << 30
MAX_OUTPUT_BYTES = 256 << 20
# How often it is looked whether a program that prints no more has ended.
_POLL_S = 0.002
# What programs say whose allocation was refused.
_OUT_OF_MEMORY = re.compile(rb"memory|bad_alloc|cannot allocate", re.IGNORECASE)
#: A section of code begins in it; 200 bytes stand before the first one.
_HEAD_BYTES = 1_000_000


def find() -> Path | None:
    """Return the newest ``nvdisasm`` of a wheel; else that of the PATH, CUDA_HOME, /usr/local/cuda, or Triton's."""
    name = "nvdisasm.exe" if os.name == "nt" else "nvdisasm"
    # nvidia/cu13/bin, nvidia/cuda_nvcc/bin: the folder with the greatest version first, those without one last.
    wheels = [path for place in _folders_of("nvidia") for path in place.glob(f"*/bin/{name}") if _runs(path)]
    if wheels:
        return max(wheels, key=lambda path: (path.parts[-3].startswith("cu1"), path.parts[-3]))
    on_path = shutil.which("nvdisasm")
    if on_path:
        return Path(on_path)
    homes = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
    found = [*(Path(home) / "bin" / name for home in homes if home),
             *(place / "backends" / "nvidia" / "bin" / name for place in _folders_of("triton"))]
    return next((path for path in found if _runs(path)), None)


def _folders_of(package: str) -> list[Path]:
    """Return where a package is, without importing it; nothing where it is not installed."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    return [] if spec is None else [Path(each) for each in spec.submodule_search_locations or ()]


def disassemble(cubin: bytes, timeout_s: float = _TIMEOUT_S) -> str:
    """Return the SASS of a cubin, with ``//## File`` lines where it has line information.

    Parameters
    ----------
    cubin : bytes
        The machine code.
    timeout_s : float
        Seconds after which to give up.

    Raises
    ------
    DisassemblerError
        There is no ``nvdisasm``, it fails, or it reached a limit on memory, time or output; the message says what to
        do, or which limit.
    """
    program = find()
    if program is None:
        raise DisassemblerError(f"there is no nvdisasm to show machine code with; {GET}")
    # It reads files only.
    with tempfile.TemporaryDirectory(prefix="kernelscope-") as folder:
        path = Path(folder) / "kernel.cubin"
        try:
            path.write_bytes(cubin)
            done = _run([str(program), *_OPTIONS, str(path)], timeout_s)
        except subprocess.TimeoutExpired:
            raise DisassemblerError(f"{program} took more than {timeout_s:g} s for {len(cubin)} bytes") from None
        except OSError as error:
            raise DisassemblerError(f"{program} cannot be run: {error.strerror or error}; {GET}") from None
    if done.returncode:
        said = " ".join(done.stderr[:_HEAD_BYTES].decode("utf-8", "replace").replace(str(path), "the cubin").split())
        why = f"{program} failed with exit code {done.returncode}: {said[:500] or 'it said nothing'}"
        if _OUT_OF_MEMORY.search(done.stderr[:_HEAD_BYTES]):
            why += f"; it may use {MAX_MEMORY_BYTES} bytes of memory at most"
        raise DisassemblerError(why)
    # A script of the same name on the PATH may print anything, and as much as it likes.
    if b".text." not in done.stdout[:_HEAD_BYTES]:
        raise DisassemblerError(f"{program} printed no SASS, but {len(done.stdout)} bytes of something else")
    return done.stdout.decode("utf-8", "replace")


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _run(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run a program with limits and return how it ended and what it printed; its children end with it."""
    until = time.monotonic() + timeout_s
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    try:
        seconds = _limit(process.pid, timeout_s)
        if sys.platform == "win32":
            printed = process.communicate(timeout=timeout_s)
        else:
            printed = _printed(process, until, timeout_s)
    finally:
        _end(process)
    if sys.platform != "win32" and process.returncode == -signal.SIGXCPU:
        raise DisassemblerError(f"{command[0]} used more than {seconds} s of the processor")
    return subprocess.CompletedProcess(command, process.returncode, *printed)


def _printed(process: subprocess.Popen[bytes], until: float, timeout_s: float) -> tuple[bytes, bytes]:
    """Read what a program prints until it has ended, or prints too much: it would wait for ever to write the rest."""
    program = cast("list[str]", process.args)[0]
    pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    read = {pipe: bytearray() for pipe in pipes}
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(until - time.monotonic(), 0))
            if not ready:
                raise subprocess.TimeoutExpired(process.args, timeout_s)
            for key, _ in ready:
                pipe = cast("IO[bytes]", key.fileobj)
                some = os.read(key.fd, 1 << 16)
                read[pipe] += some
                if len(read[pipe]) > MAX_OUTPUT_BYTES:
                    raise DisassemblerError(f"{program} printed more than {MAX_OUTPUT_BYTES} bytes")
                if not some:
                    selector.unregister(pipe)
        # Its number stays its own until it is waited for, so that `_end` ends no other process.
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(process.args, timeout_s)
            time.sleep(_POLL_S)
    stdout, stderr = (bytes(read[pipe]) for pipe in pipes)
    return stdout, stderr


def _limit(pid: int, timeout_s: float) -> int:
    """Limit a process that has just been started, and return how many seconds of the processor it may use.

    From here and not in the child between fork and exec: `subprocess` runs Python there (``preexec_fn``), which can
    wait for ever for a lock that another thread held. A shell that sets limits and then becomes the program would take
    what is no program for a script. What it has allocated in the microseconds before is within the limit of all that it
    may have. Only Linux can limit another process; elsewhere time and output are limited.
    """
    seconds = math.ceil(timeout_s) + 1
    if sys.platform == "linux":
        import resource

        wanted = {resource.RLIMIT_AS: MAX_MEMORY_BYTES, resource.RLIMIT_CPU: seconds,
                  resource.RLIMIT_FSIZE: MAX_OUTPUT_BYTES, resource.RLIMIT_CORE: 0}
        for what, most in wanted.items():
            hard = resource.prlimit(pid, what)[1]
            if hard == resource.RLIM_INFINITY or hard > most:
                # A second more, or the kernel would kill it at once and not say why.
                resource.prlimit(pid, what, (most, most + (what == resource.RLIMIT_CPU)))
    return seconds


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all of its session, if they have not ended, and close its pipes."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
