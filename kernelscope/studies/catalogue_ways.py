"""Cases that tell ways of launching apart, with the same four device arrays: configured, streams, graphs, recorded."""

from __future__ import annotations

from kernelscope.studies.case import Case
from kernelscope.studies.catalogue_arguments import ARRAYS, args_name, empty

_REFERENCE = args_name(ARRAYS)
_LAUNCH = empty(ARRAYS).statement
_SETUP = empty(ARRAYS).setup
_STREAM = _SETUP + "stream = cuda.stream()\nheld = kernel[1, 1, stream]\n"

#: KernelScope's recorders, and what each keeps of a launch.
BACKENDS, DETAILS = ("python", "native"), ("launch", "phases")
#: Launches after which the interpreter has adapted to a recorder's hooks that came or went. The Python recorder gives
#: functions other code; the native one leaves code and call sites as they are.
_ADAPTED = {"python": 800, "native": 100}
#: A capture of more nodes takes long to end, and 1,000 launches take some milliseconds.
_MOST_NODES = 1000


def way_cases() -> list[Case]:
    """Return the cases of all groups but those that tell arguments apart."""
    return [
        Case("configured each time", "kernel[1, 1](a0, a1, a2, a3)", _SETUP, ARRAYS, "configure", _REFERENCE),
        Case("explicit stream", _LAUNCH, _STREAM, ARRAYS, "stream", _REFERENCE),
        _callbacks(1),
        _callbacks(4),
        Case("capturing stream", _LAUNCH, _STREAM + _CAPTURE, ARRAYS, "capture", "explicit stream",
             before="begin_capture()", after="end_capture()", most_loops=_MOST_NODES),
        Case("launch-config sensitive", _LAUNCH, _sensitive(_SETUP), ARRAYS, "launch-config", _REFERENCE),
        graph(1),
        graph(20),
        launches(20),
        unrecorded(),
        *(recorded(backend, detail) for backend in BACKENDS for detail in DETAILS),
    ]


def graph(kernels: int) -> Case:
    """Return the case of one launch of a CUDA graph of `kernels` empty kernels with four arrays, one after the other.

    It is compared with `launches` of as many kernels; for one kernel, with an explicit stream.

    Raises
    ------
    ValueError
        If `kernels` is less than 1.
    """
    _check(kernels)
    name = f"graph of {kernels} kernel{'' if kernels == 1 else 's'}"
    against = "explicit stream" if kernels == 1 else f"{kernels} launches"
    return Case(name, "graph.launch(graph_stream)", f"{_SETUP}KERNELS = {kernels}\n{_GRAPH}", ARRAYS, "graph", against)


def launches(kernels: int) -> Case:
    """Return the case of `kernels` launches of an empty kernel with four arrays on one stream.

    Its time is that of all of them together, so that it can be compared with the graph of as many.

    Raises
    ------
    ValueError
        If `kernels` is less than 1.
    """
    _check(kernels)
    if kernels == 1:
        return Case("1 launch", _LAUNCH, _STREAM, ARRAYS, "graph")
    # Written out: a loop in the statement would be counted too.
    return Case(f"{kernels} launches", "\n".join([_LAUNCH] * kernels), _STREAM, ARRAYS, "graph",
                most_loops=max(1, _MOST_NODES // kernels))


def recorded(backend: str, detail: str, count: int = ARRAYS) -> Case:
    """Return the case of an empty kernel with `count` device arrays whose launches KernelScope records, without CUPTI.

    It is compared with `unrecorded` of as many. What a recording does once is in no timed loop: it looks up a kernel at
    its first launch, and the interpreter adapts its instructions anew where hooks come and go.

    Parameters
    ----------
    backend : str
        The recorder: ``python`` or ``native``.
    detail : str
        ``launch`` or ``phases``, as `Recorder` has them.
    count : int
        Arrays that the kernel takes.

    Raises
    ------
    ValueError
        If there is no such recorder or detail.
    """
    if backend not in BACKENDS or detail not in DETAILS:
        raise ValueError(f"a recorder {backend!r} with the detail {detail!r}: it has {', '.join(BACKENDS)} and "
                         f"{', '.join(DETAILS)}")
    bare = empty(count)
    warm = _repeated(bare.statement, _ADAPTED[backend])
    setup = f"{bare.setup}BACKEND, DETAIL = {backend!r}, {detail!r}\n{_RECORDED.format(launch=bare.statement)}"
    return Case(f"{bare.name} + {backend} recorder ({detail})", bare.statement, setup, count, "recording",
                unrecorded(count).name, before=f"begin_recording()\n{warm}\ncuda.synchronize()",
                after=f"recorder.stop()\n{warm}", needs=("kernelscope",))


def unrecorded(count: int = ARRAYS) -> Case:
    """Return the case that `recorded` is compared with: `empty`, launched as often before its timed loops."""
    bare = empty(count)
    warm = _repeated(bare.statement, min(_ADAPTED.values()))
    return Case(f"{bare.name} + no recorder", bare.statement, bare.setup, count, "recording",
                before=f"{warm}\ncuda.synchronize()", after=warm)


def _repeated(statement: str, times: int) -> str:
    return f"for _ in range({times}):\n    {statement}"


def _check(kernels: int) -> None:
    if kernels < 1:
        raise ValueError(f"a graph of {kernels} kernels: it needs at least 1")


def _callbacks(count: int) -> Case:
    name = "1 pre-launch callback" if count == 1 else f"{count} pre-launch callbacks"
    return Case(name, _LAUNCH, f"{_SETUP}CALLBACKS = {count}\n{_CALLBACKS}", ARRAYS, "callbacks", _REFERENCE)


def _sensitive(setup: str) -> str:
    """Return `setup` with a kernel that is marked as launch-config sensitive while it is compiled."""
    return _SENSITIVE + setup.replace("def kernel(", "def sensitive_kernel(").replace(
        "kernel[1, 1]", "sensitive_kernel[1, 1]")


# The configuration is no other case's, although configurations are cached: its kernel is not.
_CALLBACKS = """\
if not hasattr(held, "pre_launch_callbacks"):
    raise Unavailable("its launch configurations have no pre_launch_callbacks (numba-cuda has them since 0.30)")

def callback(kernel, launch_config):
    pass

held.pre_launch_callbacks.extend([callback] * CALLBACKS)
"""

# With the driver's own calls, which all versions have: a GraphBuilder is no stream in some of them.
_CAPTURE = """\
try:
    from cuda.bindings import driver
except ImportError:
    raise Unavailable("it has no cuda.bindings, which capture a stream") from None

def checked(answer):
    if int(answer[0]) != 0:
        raise RuntimeError(f"the driver answers {answer[0]!r}")
    return answer[1] if len(answer) > 1 else None

handle = getattr(stream, "handle", 0)
handle = int(getattr(handle, "value", handle) or 0)
if not handle:
    raise Unavailable(f"its stream, a {type(stream).__name__}, has no handle to capture")
capturing = driver.CUstream(handle)

def begin_capture():
    checked(driver.cuStreamBeginCapture(capturing, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))

def end_capture():
    checked(driver.cuGraphDestroy(checked(driver.cuStreamEndCapture(capturing))))

held(a0, a1, a2, a3)
stream.synchronize()
"""

_GRAPH = """\
try:
    from cuda.core import Device
except ImportError:
    try:
        from cuda.core.experimental import Device
    except ImportError:
        raise Unavailable("it has no cuda.core, which builds the graph") from None

held(a0, a1, a2, a3)
cuda.synchronize()
device = Device()
device.set_current()
graph_stream = device.create_stream()
if not hasattr(device, "create_graph_builder"):
    raise Unavailable("its cuda.core has no graphs")
builder = device.create_graph_builder()
builder.begin_building()
captured = kernel[1, 1, cuda.external_stream(int(builder.stream.handle))]
for _ in range(KERNELS):
    captured(a0, a1, a2, a3)
builder.end_building()
graph = builder.complete()
graph.upload(graph_stream)
graph.launch(graph_stream)
graph_stream.sync()
"""

# What a launch-config sensitive kernel reads of its launch does not matter to how it is launched: it is marked and no
# more, where extensions do so, and by the name of the function, because an extension sees every kernel.
_SENSITIVE = """\
if cuda.__name__.startswith("numba_cuda_mlir"):
    try:
        from numba_cuda_mlir.extending import WholeFunctionPlanner, register_planner, require_launch_config
    except ImportError:
        raise Unavailable("it has no launch-config sensitive kernels") from None

    @register_planner
    class Marks(WholeFunctionPlanner):
        def run(self):
            if self.state.func_ir.func_id.func_name == "sensitive_kernel":
                require_launch_config(self.state)
            return False
else:
    try:
        from numba.cuda import launchconfig
        from numba.cuda.core.rewrites import Rewrite, register_rewrite
    except ImportError:
        raise Unavailable("it has no launch-config sensitive kernels (numba-cuda has them since 0.30)") from None

    @register_rewrite("after-inference")
    class Marks(Rewrite):
        def match(self, func_ir, block, typemap, calltypes):
            if func_ir.func_id.func_name == "sensitive_kernel":
                launchconfig.ensure_current_launch_config().dispatcher.mark_launch_config_sensitive()
            return False

"""

_RECORDED = """\
try:
    from kernelscope import Recorder, _native
except Exception as error:
    raise Unavailable(f"kernelscope cannot be imported there: {{type(error).__name__}}: {{error}}") from None
if BACKEND == "native" and _native.core is None:
    raise Unavailable(f"kernelscope has no native recorder there: {{_native.why_missing()}}")

def begin_recording():
    global recorder
    recorder = Recorder("study", detail=DETAIL, gpu="none", backend=BACKEND)
    recorder.start()

begin_recording()
{launch}
recorder.stop()
seen = recorder.recording
if len(seen.launches) != 1:
    told = "; ".join(str(row["message"]) for row in seen.rows("health") if row["message"])
    raise Unavailable(f"kernelscope does not record launches there: {{told or 'none was seen'}}")
"""
