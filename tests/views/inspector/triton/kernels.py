import triton
import triton.language as tl

from helpers import scaled


@triton.jit
def twice(v):
    return v + v


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    a = tl.load(x + i, mask=mask)
    b = tl.load(y + i, mask=mask)
    tl.store(out + i, twice(a) + b, mask=mask)


@triton.jit
def softmax(out, x, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, mask=i < n, other=-float("inf"))
    e = scaled(v, tl.max(v, axis=0))
    tl.store(out + row * stride + i, e / tl.sum(e, axis=0), mask=i < n)


@triton.jit
def matmul(a, b, c, K, sa, sb, sc, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * M + tl.arange(0, M)
    n = tl.program_id(1) * N + tl.arange(0, N)
    k = tl.arange(0, BK)
    acc = tl.zeros((M, N), dtype=tl.float32)
    for at in range(0, K, BK):
        left = tl.load(a + m[:, None] * sa + (at + k)[None, :])
        right = tl.load(b + (at + k)[:, None] * sb + n[None, :])
        acc = tl.dot(left, right, acc)
    tl.store(c + m[:, None] * sc + n[None, :], acc)
