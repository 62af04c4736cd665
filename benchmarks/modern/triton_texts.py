"""Texts by Triton 3.9, for four targets."""

import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

H, F8, F = "*fp16", "*fp8e4nv", "*fp32"
COUNTS = {"m": "i32", "n": "i32", "k": "i32", "sa": "i32", "sb": "i32", "sc": "i32"}


@triton.jit
def product(a, b, c, m, n, k, sa, sb, sc, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns, depth = tl.program_id(1) * N + tl.arange(0, N), tl.arange(0, K)
    left = a + rows[:, None] * sa + depth[None, :]
    right = b + depth[:, None] * sb + columns[None, :]
    sums = tl.zeros((M, N), tl.float32)
    for _ in range(0, k, K):
        sums = tl.dot(tl.load(left), tl.load(right), sums)
        left += K
        right += K * sb
    tl.store(c + rows[:, None] * sc + columns[None, :], sums.to(c.dtype.element_ty))


@triton.jit
def product_tma(
    a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, ROLES: tl.constexpr
):
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    right = tl.make_tensor_descriptor(b, [k, n], [n, 1], [K, N])
    out = tl.make_tensor_descriptor(c, [m, n], [n, 1], [M, N])
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    sums = tl.zeros((M, N), tl.float32)
    for at in tl.range(0, k, K, warp_specialize=ROLES):
        sums = tl.dot(left.load([row, at]), right.load([at, column]), sums)
    out.store([row, column], sums.to(c.dtype.element_ty))


@triton.jit
def attention(q, k, v, o, scale, n, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    base = tl.program_id(1) * n * D
    rows, inner = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    keys = tl.arange(0, N)
    query = tl.load(q + base + rows[:, None] * D + inner[None, :])
    top = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    sums = tl.zeros((M, D), tl.float32)
    for at in range(0, n, N):
        key = tl.load(k + base + (at + keys)[:, None] * D + inner[None, :])
        score = tl.dot(query, tl.trans(key)) * scale
        now = tl.maximum(top, tl.max(score, 1))
        weight, older = tl.exp2(score - now[:, None]), tl.exp2(top - now)
        total = total * older + tl.sum(weight, 1)
        value = tl.load(v + base + (at + keys)[:, None] * D + inner[None, :])
        sums = tl.dot(weight.to(value.dtype), value, sums * older[:, None])
        top = now
    sums = sums / total[:, None]
    tl.store(o + base + rows[:, None] * D + inner[None, :], sums.to(o.dtype.element_ty))


@triton.jit
def softmax(x, out, stride, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, at < n, -float("inf"))
    top = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * stride + at, top / tl.sum(top, 0), at < n)


@triton.jit
def layernorm(x, w, b, out, n, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + row * n + at, inside, 0.0).to(tl.float32)
    apart = tl.where(inside, values - tl.sum(values, 0) / n, 0.0)
    scaled = apart * tl.rsqrt(tl.sum(apart * apart, 0) / n + eps)
    scaled = scaled * tl.load(w + at, inside) + tl.load(b + at, inside)
    tl.store(out + row * n + at, scaled.to(out.dtype.element_ty), inside)


@triton.jit
def total(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at, at < n, 0.0), 0))


def make(folder, name, function, types, sizes, arch, warps=4, stages=3):
    """Writes a text. Pointers and counts are multiples of 16."""
    names = function.arg_names
    types = {one: types.get(one, "constexpr") for one in names}
    aligned = {
        (number,): [["tt.divisibility", 16]]
        for number, one in enumerate(names)
        if types[one] not in ("constexpr", "fp32")
    }
    made = triton.compile(
        ASTSource(function, types, sizes, aligned), target=GPUTarget("cuda", arch, 32),
        options={"num_warps": warps, "num_stages": stages},
    )  # fmt: skip
    (folder / f"triton_{name}_sm{arch}.ptx").write_text(made.asm["ptx"])


def tile(m, n, k):
    return {"M": m, "N": n, "K": k}


def main(folder):
    for arch in (80, 90, 100, 120):
        halves = {"a": H, "b": H, "c": H, **COUNTS}
        make(folder, "f16_64x64x32", product, halves, tile(64, 64, 32), arch)
        warps = 8 if arch == 80 else 4
        make(folder, "f16_128x128x64", product, halves, tile(128, 128, 64), arch, warps)
        for stages in (1, 2):
            name = f"f16_s{stages}_128x128x64"
            make(folder, name, product, halves, tile(128, 128, 64), arch, 4, stages)
        singles = {**halves, "a": F, "b": F, "c": F}
        make(folder, "tf32_64x64x32", product, singles, tile(64, 64, 32), arch)
        tensors = {"q": H, "k": H, "v": H, "o": H, "scale": "fp32", "n": "i32"}
        make(folder, "attention_64x64x128", attention, tensors, {"D": 64, "M": 64, "N": 64}, arch)
        sizes = {"D": 128, "M": 128, "N": 64}
        make(folder, "attention_128x64x256", attention, tensors, sizes, arch, 8)
        if arch >= 90:
            eights = {**halves, "a": F8, "b": F8, "c": F}
            make(folder, "f8_128x128x64", product, eights, tile(128, 128, 64), arch)
            given = {one: halves[one] for one in "abcmnk"}
            for name, roles in (("tma", False), ("roles", True)):
                sizes = {**tile(128, 128, 64), "ROLES": roles}
                make(folder, f"{name}_128x128x64", product_tma, given, sizes, arch)
            sizes = {**tile(128, 64, 32), "ROLES": True}
            make(folder, "roles_s2_128x64x32", product_tma, given, sizes, arch, 4, 2)
        floats = {"x": F, "out": F, "stride": "i32", "n": "i32"}
        make(folder, "softmax", softmax, floats, {"BLOCK": 1024}, arch)
        norms = {"x": H, "w": F, "b": F, "out": H, "n": "i32", "eps": "fp32"}
        make(folder, "layernorm", layernorm, norms, {"BLOCK": 2048}, arch)
        make(folder, "total", total, floats, {"BLOCK": 1024}, arch)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
