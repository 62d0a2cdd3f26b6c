"""The recorder in C: launches in slots of 64 bytes, and the hooks that write them."""

from collections.abc import Callable
from os import PathLike
from types import CodeType
from typing import Any

TAKES_FUNCTIONS: bool
"""Whether CPython lets a Python function's calls run through something else: since 3.12."""
SLOT_BYTES: int
LAYOUT_VERSION: int
CLOCK: str
"""What times are read from: ``tsc``, the processor's counter, put right each millisecond; or ``clock_gettime``."""

MOST_FRAMES: int
"""Frames of a call path at most: of a deeper one the innermost."""
READS_FRAMES: bool
"""Whether frames are read as CPython has them, without making an object of each."""

def frames(publicly: bool, /) -> list[tuple[CodeType, int]]:
    """Code objects and offsets of the calling thread's frames, innermost first.

    As hooks read them, or with CPython's public functions, which make an object of each.
    """

def before_end(function: Callable[[int], object] | None, patience_s: float, /) -> None:
    """Have a function called, with the signal's number, before SIGTERM or SIGHUP ends the process.

    It is called on a thread of ours, and the process ends by the signal when that is done, at the latest `patience_s`
    seconds later. A signal that is ignored or has a handler is left to that. With None nothing is called any more.
    """

_Call = tuple[int, int]

def drain(decode: _Call, count: _Call, times: _Call, values: _Call, clear: _Call,
          fields: tuple[int, int, int, int, int, int, int], metrics: int, stop: int, pause_s: float, /,
          ) -> tuple[bytes, int, int, int]: ...
def taken() -> list[Callable[..., Any]]:
    """The functions whose calls run through hooks."""

class Ring:
    """Launches in slots of 64 bytes, in memory or in a file, which must not exist.

    Raises
    ------
    ValueError
        `mode` is none of ``grow``, ``ring`` and ``stop``, or `capacity` (launches) does not fit.
    OSError
        The file cannot be made, or the disk has no room for it.
    """

    new_state: Callable[[], State | None] | None
    new_site: Callable[[CodeType, int], int]
    """Gives an instruction of the calling thread its id; without it, lines are not recorded."""
    new_stack: Callable[[list[tuple[CodeType, int]]], int]
    """Gives a call path of the calling thread its id, innermost frame first; without it, none are recorded."""
    @property
    def phases(self) -> bool: ...
    @property
    def failure(self) -> int: ...
    @property
    def harm(self) -> str | None: ...
    @property
    def is_in_file(self) -> bool: ...
    def __init__(self, mode: str = "grow", capacity: int = 0, path: str | PathLike[str] | None = None,
                 phases: bool = True, clock: Callable[[], int] | None = None) -> None: ...
    def mark(self) -> tuple[int, int]:
        """How many launches have begun, and how many more found no room."""
    def counts(self, since: int, /) -> tuple[int, int, int, int, int]:
        """Of the launches from an index on: ended, under way, voided; and what `mark` returned at the same time."""
    def columns(self, since: int, /) -> dict[str, bytearray]:
        """The launches from an index on that have ended: times as int64 (ns, -1 unknown), ids as int32.

        In mode ``ring``, where a launch that lasts is passed over, also ``number``, by which they have begun, as int64.
        """

    def leave_file(self) -> None:
        """Let go of the file, with what is in it: launches that end from now on are written nowhere."""

class State:
    """One thread's launch under way; times in seconds, negative where unknown."""

    launch_config: Any
    kernel: Any
    dispatch_end: float
    submit_start: float
    submit_end: float
    @property
    def site(self) -> int:
        """The thread's own id, for where no line is known."""
    def __init__(self, ring: Ring, site: int) -> None: ...
    def here(self) -> int:
        """Where the thread, which must be the calling one, is: the id of a line of the user's, or its own."""
    def forget(self) -> None: ...
    def write(self, start: float, dispatch_end: float, submit_start: float, submit_end: float, end: float,
              target: int, configuration: int, /) -> None: ...

class Collections:
    """A callback for ``gc.callbacks`` that keeps when each collection was; it runs no Python, and so loses no Ctrl-C.

    `clock` returns nanoseconds; without it the host clock is read. Its length is the number of collections.
    """

    dropped: int
    def __init__(self, clock: Callable[[], int] | None = None) -> None: ...
    def __call__(self, phase: str, info: dict[str, int], /) -> None: ...
    def __len__(self) -> int: ...
    def rows(self, first: int = 0, /) -> bytes:
        """Return the collections from the one with that number on, as they ended: six int64 each.

        These are start_ns, end_ns, the thread's ident, the generation, and how many objects were collected and could
        not be; -1 is unknown.
        """

class CallSites:
    """Logs when and where in the user's code the driver is called: CUPTI calls `callback`, with `context` first.

    `forward` is the address of a callback of the same kind that is called as well: for every function, unless `log`
    says otherwise. `stamp` is that of a function that gives time and thread instead of the clock's, for tests: it takes
    CUPTI's site of the callback, an ``int64_t *`` and a ``uint32_t *``.
    """

    elsewhere: int
    """The site of threads that run none of the user's code, -1 for none."""
    @property
    def unanswered(self) -> int:
        """How many calls have no site because Python was busy."""
    @property
    def lost(self) -> int:
        """How many calls were not logged for want of memory."""
    @property
    def callback(self) -> int: ...
    @property
    def context(self) -> int: ...
    def __init__(self, forward: int, stamp: int = 0) -> None: ...
    def start(self, ask: Callable[[CodeType, int], int] | None,
              ask_path: Callable[[list[tuple[CodeType, int]]], int] | None,
              ring: Ring, /) -> None:
        """Log from now on; `ask` and `ask_path` give ids, as `Ring.new_site` and `Ring.new_stack` do; None: no sites.

        What hooks submit that write to `ring` has no site here: the launches have lines.
        """
    def stop(self) -> None:
        """Log no more; what was logged stays until `clear`."""
    def clear(self) -> None:
        """Let go of what was logged."""
    def log(self, domain: int, function: int, logged: bool, forwarded: bool, /) -> None:
        """Say of a function of the driver's (1) or the runtime's (2) interface if calls are logged, and handed on."""
    def wait(self) -> tuple[int, list[tuple[CodeType, int]], bool] | None:
        """Wait until a thread without the interpreter's lock asks for an id; None when logging has stopped.

        Returns a number to answer with, code objects and offsets, and whether they are a call path's.
        """
    def answer(self, number: int, site: int, /) -> None:
        """Answer what `wait` returned."""
    def take(self) -> bytearray:
        """Return the calls that ended since this was called last.

        Each is int64 start and end, uint32 correlation id and thread, int32 site, negative for none, and result, uint32
        domain and function.
        """

class Operators:
    """Keeps which of PyTorch's operators each thread is in; of one at a time, from `start` until `stop`.

    `add`, `remove` and `name` are the addresses of ``at::addGlobalCallback``, ``at::removeCallback`` and
    ``at::RecordFunction::name``.
    """

    @property
    def dropped(self) -> int:
        """How many instants found no room."""
    def __init__(self, add: int, remove: int, name: int) -> None: ...
    def start(self) -> None:
        """Have PyTorch call back at each of its operators."""
    def stop(self) -> None:
        """Have it call back no more; what was kept stays."""
    def rows(self) -> list[tuple[int, list[tuple[int, str]], bytes]]:
        """What was kept, for each thread.

        Its ident; its operators by number, each with the number of the one around it, -1 for none, and its name; and
        two int64 for each change: when it was, and the number of the operator that the thread is in from then on, -1
        for none.
        """

class Hook:
    """Stands for a callable, or has the calls of a Python function run through it, and records them.

    `kind` says what is recorded: see the bodies in ``csrc``. `begin` and `end` are Python's part of a launch, `most`
    how many launch configurations are known, and held, at once (0: any number), `tools` what else a body works with.
    """

    is_enabled: bool
    original: Callable[..., Any]
    def __init__(self, kind: str, original: Callable[..., Any], ring: Ring, begin: Callable[..., Any] | None = None,
                 end: Callable[..., Any] | None = None, most: int = 0, tools: tuple[Any, ...] = ()) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any: ...
    def take(self) -> None:
        """Have the calls of `original`, a Python function, run through here."""
    def give_back(self) -> bool:
        """Record no more; whether `original` is as it was before `take`."""
    def know(self, table: str, key: Any, first: int, second: int, /) -> None:
        """Say which ids an object stands for; it is held until `forget`.

        In the table ``launches`` it is a tuple: two objects that are compared by identity, the second of which may be
        None, and up to four numbers, dimensions or None. The ids are a target's and a configuration's.
        """
    def forget(self) -> None:
        """Let go of the objects whose ids are known."""
