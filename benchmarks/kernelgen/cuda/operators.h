// What all operators share: the element type, array subscripts and the mapping of loops to threads.
//
// The mapping is that of NVHPC's OpenACC compiler: the outer parallel loop over blockIdx.x with a
// grid stride, in three dimensions the middle loop over blockIdx.y, the innermost loop over
// threadIdx.x and blockIdx.z. `lo` and `hi` are the points left out at either end.
#pragma once

#ifdef REAL
typedef REAL real;
#else
typedef float real;
#endif

// The type of the constants. In C `3.` is a double, and so is what is computed with it.
#ifdef LITERAL
typedef LITERAL literal;
#else
typedef real literal;
#endif

#define at2(a, i, j) a[(i) + nx * (j)]
#define at3(a, i, j, k) a[(i) + nx * ((j) + ny * (k))]

#define for_outer(v, n, lo, hi) for (int v = blockIdx.x + (lo); v < (n) - (hi); v += gridDim.x)
#define for_middle(v, n, lo, hi) for (int v = blockIdx.y + (lo); v < (n) - (hi); v += gridDim.y)
#define for_inner(v, n, lo, hi)                                            \
    for (int v = threadIdx.x + blockDim.x * blockIdx.z + (lo); v < (n) - (hi); \
         v += blockDim.x * gridDim.z)
