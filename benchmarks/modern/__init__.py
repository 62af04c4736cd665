"""Kernels for Ampere, Hopper and Blackwell, as Triton, TileLang, CuTe and CUTLASS make them without
a GPU, and what ptxsw says of them.

    python -m benchmarks.modern.triton_texts DIR        (triton)
    python -m benchmarks.modern.tilelang_texts DIR      (tilelang, nvcc)
    python -m benchmarks.modern.cute_texts DIR          (nvidia-cutlass-dsl)
    nvcc -ptx -std=c++17 -arch=sm_90a --expt-relaxed-constexpr -DS90 -I CUTLASS/include cutlass.cu
    python -m benchmarks.modern DIR                     a table of all texts

Names end in the target. Before that stand, of products of matrices, the rows, columns and depth of
the tile that a block multiplies in an iteration: "f16_128x128x64_sm90.ptx".
"""
