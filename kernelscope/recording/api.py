"""What functions of the driver and of the runtime do, by their names: CUDA's, and HIP's, which are named after them."""

from __future__ import annotations

import re

#: How the names of functions begin, as a regular expression: the runtime's, the driver's, and those of HIP, which has
#: both in one.
PREFIXES = "cuda|cu|hip"

#: What a function does, by its name after the prefix: the first that matches. One of HIP does what CUDA's does, and may
#: have a word more: ``hipExtModuleLaunchKernel``. ``cudaLaunch``, ``cuLaunchGrid`` and ``hipLaunchByPtr`` are old.
_KINDS: dict[str, re.Pattern[str]] = {
    "launch": re.compile(r"(?:Ext|Hcc|Drv)?(?:Module)?Launch(?:(?:Multi)?Kernel|Cooperative|Grid|ByPtr|(?=_|$))"),
    "graph launch": re.compile("GraphLaunch"),
    # Not cuGraphics..., which shares buffers with OpenGL.
    "graph": re.compile("Graph(?!ics)"),
    "capture": re.compile(".*Capture"),
    "memset": re.compile(".*Memset"),
    # A prefetch moves pages, as a copy does.
    "copy": re.compile(".*(?:Memcpy|Prefetch)"),
    # What only asks for something is another call.
    "memory": re.compile(
        ".*(?:Malloc|Free|MemAlloc|HostAlloc|HostRegister|HostUnregister|MemCreate|MemRelease|MemMap|MemUnmap|"
        "MemSetAccess|MemAddressReserve|MemPool(?:Create|Destroy|TrimTo)|MemAdvise|MemDiscard|GraphMemTrim|"
        "Array(?:3D)?(?:Create|Destroy)|MipmappedArray(?:Create|Destroy))"),
    "wait": re.compile(".*Synchronize"),
}
_FUNCTION = re.compile(rf"(?:{PREFIXES})(?=[A-Z])")
_WAITS = re.compile("(Stream|Event|Device|Ctx|Thread)Synchronize")
#: What cuda.core is said to have called where its launches are recorded without the driver's.
_OF_CUDA_CORE = "cuda.core.launch"


def is_function(name: str) -> bool:
    """Return whether it is the name of a function of CUDA's or HIP's driver or runtime."""
    return name.isidentifier() and _FUNCTION.match(name) is not None


def kind_of(function: str) -> str:
    """Return what a function does.

    Returns
    -------
    str
        ``launch`` (of a kernel), ``graph launch``, ``graph`` (all else about graphs), ``capture`` (of a stream),
        ``memset``, ``copy``, ``memory`` (allocations), ``wait`` (for the GPU) or ``call`` for everything else.
    """
    if function == _OF_CUDA_CORE:
        return "launch"
    found = _FUNCTION.match(function)
    if found is None:
        return "call"
    return next((kind for kind, pattern in _KINDS.items() if pattern.match(function, found.end())), "call")


def is_launch(function: str) -> bool:
    """Return whether a function launches a kernel."""
    return kind_of(function) == "launch"


def is_graph_launch(function: str) -> bool:
    """Return whether a function launches a graph."""
    return kind_of(function) == "graph launch"


def is_graph_function(function: str) -> bool:
    """Return whether a function is one of those of graphs, their launches included."""
    return kind_of(function) in ("graph launch", "graph")


def wait_of(function: str) -> str | None:
    """Return what a function waits for: ``stream synchronize``, ``event synchronize`` or ``context synchronize``."""
    found = _FUNCTION.match(function)
    wait = found and _WAITS.match(function, found.end())
    if not wait:
        return None
    return f"{wait[1].lower() if wait[1] in ('Stream', 'Event') else 'context'} synchronize"
