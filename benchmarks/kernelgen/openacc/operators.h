// What all operators share in OpenACC C: the element type, subscripts, and the mapping of the
// parallel loops: the outermost over gangs, the innermost over the lanes of a vector. The middle one is
// sequential: for a worker loop GCC 12 writes a `st` that ptxas refuses.
#pragma once

#ifdef REAL
typedef REAL real;
#else
typedef float real;
#endif

#define at2(a, i, j) a[(i) + nx * (j)]
#define at3(a, i, j, k) a[(i) + nx * ((j) + ny * (k))]

#define for_outer(v, n, lo, hi) \
    _Pragma("acc loop independent gang") for (int v = (lo); v < (n) - (hi); v++)
#define for_middle(v, n, lo, hi) \
    _Pragma("acc loop seq") for (int v = (lo); v < (n) - (hi); v++)
#define for_inner(v, n, lo, hi) \
    _Pragma("acc loop independent vector") for (int v = (lo); v < (n) - (hi); v++)
