"""Texts by CuTe DSL 4.8: `CUTE_DSL_ARCH=sm_90a CUTE_DSL_KEEP_PTX=1`, in the working directory."""

import cutlass
from cutlass import cute
from cutlass.cute.runtime import make_fake_tensor


@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    c[block * 128 + thread] = a[block * 128 + thread] + b[block * 128 + thread]


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    add_kernel(a, b, c).launch(grid=[1024, 1, 1], block=[128, 1, 1])


@cute.kernel
def product_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, mma: cute.TiledMma):
    thread, _, _ = cute.arch.thread_idx()
    x, y, _ = cute.arch.block_idx()
    own = mma.get_slice(thread)
    left = own.partition_A(cute.local_tile(a, (64, 32), (x, None)))
    right = own.partition_B(cute.local_tile(b, (64, 32), (y, None)))
    out = own.partition_C(cute.local_tile(c, (64, 64), (x, y)))
    one = mma.make_fragment_A(left[None, None, None, 0])
    other = mma.make_fragment_B(right[None, None, None, 0])
    sums = mma.make_fragment_C(out)
    sums.fill(0.0)
    for k in cutlass.range(cute.size(left, mode=[3])):
        cute.autovec_copy(left[None, None, None, k], one)
        cute.autovec_copy(right[None, None, None, k], other)
        cute.gemm(mma, sums, one, other, sums)
    cute.autovec_copy(sums, out)


@cute.jit
def product(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    shape = cute.nvgpu.warp.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (16, 8, 16))
    mma = cute.make_tiled_mma(shape, cute.make_layout((2, 2, 1)))
    product_kernel(a, b, c, mma).launch(grid=[16, 16, 1], block=[128, 1, 1])


def main():
    vector = make_fake_tensor(cutlass.Float32, (131072,), stride=(1,))
    cute.compile(add, vector, vector, vector)
    halves = make_fake_tensor(cutlass.Float16, (1024, 1024), stride=(1024, 1))
    floats = make_fake_tensor(cutlass.Float32, (1024, 1024), stride=(1024, 1))
    cute.compile(product, halves, halves, floats)


if __name__ == "__main__":
    main()
