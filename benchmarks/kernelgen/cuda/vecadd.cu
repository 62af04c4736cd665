// Sum of two arrays: 2 loads.
#include "operators.h"

extern "C" __global__ void vecadd(int nx, int ny, int nz, const real* __restrict__ a,
                                  const real* __restrict__ b, real* __restrict__ c)
{
    for_outer(k, nz, 0, 0)
        for_middle(j, ny, 0, 0)
            for_inner(i, nx, 0, 0)
                at3(c, i, j, k) = at3(a, i, j, k) + at3(b, i, j, k);
}
