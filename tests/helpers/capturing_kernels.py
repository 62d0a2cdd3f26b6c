"""Kernels that capture globals and call device functions in many ways, each with a disk cache.

Run as a script: launches all of them in an order that the seed in the first argument makes, after the second argument
was executed, and prints how each was found.
"""

import json
import math
import random
import sys
import warnings

import numpy as np
from numba import cuda

SCALE, OFFSET, TABLE, NAMES = 2.5, 3, np.arange(5, dtype=np.float32), (1, 2.0, 3)
REC = np.dtype([("a", np.float32), ("b", np.int64), ("c", np.float64, (3,))], align=True)
f32, f64, i32 = np.zeros(8, np.float32), np.zeros(8), np.zeros(8, np.int32)
m = np.zeros((4, 4), np.float32)
rec = np.zeros(4, REC)


@cuda.jit(device=True)
def leaf(x):
    return x * SCALE + OFFSET


@cuda.jit(device=True)
def mid(x):
    return leaf(x) + leaf(int(x))


@cuda.jit(device=True)
def mid2(x, y):
    return leaf(x) - mid(y)


@cuda.jit(device=True, inline="always")
def inlined(x):
    return x + OFFSET


@cuda.jit(device=True, forceinline=True)
def forced(x):
    return x + SCALE


@cuda.jit(device=True, fastmath=True)
def fast(x):
    return math.sin(x) / math.cos(x)


def factory(n, g):
    @cuda.jit(cache=True)
    def closed(x):
        for i in range(n):
            x[i] = g(x[i]) + n

    return closed


closed = factory(3, leaf)


@cuda.jit(cache=True)
def k_leaf(x):
    x[0] = leaf(x[1])


@cuda.jit(cache=True)
def k_mid(x):
    x[0] = mid(x[1]) + leaf(x[2])


@cuda.jit(cache=True)
def k_diamond(x, y):
    x[0] = mid2(x[1], y[2]) + mid(y[0]) + leaf(x[2])


@cuda.jit(cache=True)
def k_inl(x):
    x[0] = inlined(x[1]) + forced(x[2]) + fast(x[3])


@cuda.jit(cache=True)
def k_global(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] * SCALE + OFFSET


@cuda.jit(cache=True)
def k_table(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = TABLE[i % 5]


@cuda.jit(cache=True)
def k_const(x):
    t = cuda.const.array_like(TABLE)
    x[0] = t[cuda.threadIdx.x]


@cuda.jit(cache=True)
def k_tuple(x, t):
    a, b, c = t
    x[0] = a + b + c + NAMES[0] + NAMES[2]


@cuda.jit(cache=True)
def k_utup(x, t):
    s = 0.0
    for v in t:
        s += v
    x[0] = s


@cuda.jit(cache=True)
def k_rec(r):
    i = cuda.grid(1)
    if i < r.size:
        r[i].a = r[i].b * SCALE
        r[i].c[1] = 2.0


@cuda.jit(cache=True)
def k_shared(x):
    s = cuda.shared.array(64, np.float32)
    u = cuda.shared.array((4, OFFSET), np.int32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    u[0, 1] = i
    cuda.syncthreads()
    x[i] = s[63 - i] + u[0, 1]


@cuda.jit(cache=True)
def k_dyn(x):
    s = cuda.shared.array(0, np.float64)
    s[cuda.threadIdx.x] = x[0]
    cuda.syncthreads()
    x[0] = s[0]


@cuda.jit(cache=True)
def k_local(x):
    s = cuda.local.array(OFFSET, np.float32)
    for i in range(OFFSET):
        s[i] = x[i]
    x[0] = s[OFFSET - 1]


@cuda.jit(cache=True)
def k_libdevice(x):
    x[0] = math.sin(x[1]) + math.exp(x[2]) ** 0.3 + math.erf(x[3]) + math.pow(x[1], SCALE)


@cuda.jit(cache=True)
def k_print(x):
    print("value", x[0], 3, cuda.threadIdx.x)
    if x[1] > SCALE:
        print("big")


@cuda.jit(cache=True)
def k_atomic(x, y):
    cuda.atomic.add(x, 0, SCALE)
    cuda.atomic.max(x, 1, 3.0)
    cuda.atomic.cas(y, 0, 3, OFFSET)


@cuda.jit(cache=True)
def k_coop(x):
    g = cuda.cg.this_grid()
    x[0] = SCALE
    g.sync()
    x[1] = x[0]


@cuda.jit(cache=True)
def k_warp(x):
    v = cuda.shfl_down_sync(0xFFFFFFFF, x[0], 3)
    x[0] = v + cuda.ballot_sync(0xFFFFFFFF, v > SCALE)


@cuda.jit(fastmath=True, cache=True)
def k_fast(x):
    x[0] = math.sqrt(x[1]) / x[2] * SCALE


@cuda.jit(debug=True, opt=False, cache=True)
def k_debug(x):
    if x[0] > SCALE:
        raise ValueError("bad")
    x[0] = leaf(x[1])


@cuda.jit(lineinfo=True, cache=True)
def k_line(x):
    for i in range(3):
        x[i] = leaf(x[i]) + OFFSET


@cuda.jit(launch_bounds=128, cache=True)
def k_bounds(x):
    x[0] = leaf(x[0])


@cuda.jit(max_registers=32, cache=True)
def k_registers(x):
    x[0] = leaf(x[0])


@cuda.jit(cache=True)
def k_many(x, y, z, n):
    aa = bb = cc = dd = 0.0
    for i in range(n):
        for j in range(i):
            aa += x[j] * SCALE
            bb -= y[i % 4, j % 4]
            cc = max(cc, z[j])
            if aa > bb:
                dd = mid(aa)
                if dd > 3:
                    break
            else:
                dd = leaf(bb)
        while cc > 10:
            cc /= 2
    x[0] = aa + bb + cc + dd


@cuda.jit(cache=True)
def k_slices(x, y):
    v = x[1:4]
    w = y[:, 1]
    for i in range(v.size):
        v[i] = w[i]


@cuda.jit(cache=True)
def k_enumzip(x, y):
    for i, v in enumerate(x):
        x[i] = v + 1
    for a in zip((1, 2), (3, 4)):  # noqa: B905  numba knows no strict
        x[a[0]] = a[1]


@cuda.jit(cache=True)
def k_optional(x, flag):
    a = None
    if flag:
        a = x[0]
    if a is not None:
        x[1] = a + SCALE


@cuda.jit(cache=True)
def k_complex(x):
    c = complex(x[0], x[1])
    d = c * c / (c + SCALE)
    x[0] = d.real + abs(d)


@cuda.jit(cache=True)
def k_ufunc(x, y):
    x[0] = np.sin(x[1]) + np.float32(SCALE) * np.int32(y[0])


@cuda.jit(cache=True)
def k_rng(x):
    s = 0
    for _ in range(10):
        s = (s * 1103515245 + 12345) & 0x7FFFFFFF
    x[0] = s


@cuda.jit(cache=True)
def k_lam(x):
    def inner(a):
        return a * SCALE

    g = lambda b: b + OFFSET  # noqa: E731
    x[0] = inner(x[1]) + g(x[2])


@cuda.jit(cache=True)
def k_vec(x):
    v = cuda.float32x3(1.0, 2.0, SCALE)
    x[0] = v.x + v.z


CASES = {
    "closed": (closed, (f32,)), "leaf": (k_leaf, (f32,)), "leaf64": (k_leaf, (f64,)), "mid": (k_mid, (f32,)),
    "diamond": (k_diamond, (f32, f64)), "inlined": (k_inl, (f32,)), "global": (k_global, (f32,)),
    "table": (k_table, (f32,)), "const": (k_const, (f32,)), "tuple": (k_tuple, (f32, (1, 2.0, np.float32(3)))),
    "unituple": (k_utup, (f32, (1.0, 2.0))), "record": (k_rec, (rec,)), "shared": (k_shared, (f32,)),
    "dynamic": (k_dyn, (f32,)), "local": (k_local, (f32,)), "libdevice": (k_libdevice, (f32,)),
    "print": (k_print, (f32,)), "atomic": (k_atomic, (f64, i32)), "cooperative": (k_coop, (f32,)),
    "warp": (k_warp, (f32,)), "fast": (k_fast, (f32,)), "debug": (k_debug, (f32,)), "lineinfo": (k_line, (f32,)),
    "bounds": (k_bounds, (f32,)), "registers": (k_registers, (f32,)), "many": (k_many, (f32, m, f64, 3)),
    "slices": (k_slices, (f32, m)), "loops": (k_enumzip, (f32, f32)), "optional": (k_optional, (f32, True)),
    "complex": (k_complex, (f32,)), "ufunc": (k_ufunc, (f32, i32)), "plain": (k_rng, (f32,)),
    "lambda": (k_lam, (f32,)), "vector": (k_vec, (f32,)),
}


def main():
    import kernelscope
    from kernelscope.probes.numba_cuda import compile

    compile.BUDGET_NS = 600_000_000_000
    warnings.simplefilter("ignore")  # host arrays
    names = list(CASES)
    random.Random(int(sys.argv[1])).shuffle(names)
    exec(sys.argv[2], globals())
    with kernelscope.record() as r:
        for name in names:
            kernel, arguments = CASES[name]
            kernel[1, 32](*arguments)
    assert r.recording.health.errors.isna().all(), r.recording.health.to_string()
    rows = json.loads(r.recording.compilations.to_json(orient="records"))
    print(json.dumps([[name, row["outcome"], row["reason_code"], json.loads(row["attributes"] or "{}")]
                      for name, row in zip(names, rows, strict=True)]))


if __name__ == "__main__":
    main()
