// Tricubic interpolation with loops and arrays of weights: 67 loads once the compiler has
// unrolled the loops.
#include "operators.h"
#include "weights.h"

extern "C" __global__ void tricubic2(int nx, int ny, int nz, const real* __restrict__ u0,
                                     real* __restrict__ u1, const real* __restrict__ a,
                                     const real* __restrict__ b, const real* __restrict__ c)
{
    for_outer(k, nz, 1, 2)
        for_middle(j, ny, 1, 2)
            for_inner(i, nx, 1, 2) {
                real x = at3(a, i, j, k), y = at3(b, i, j, k), z = at3(c, i, j, k);
                real wx[4] = {cubic1(x), cubic2(x), cubic3(x), cubic4(x)};
                real wy[4] = {cubic1(y), cubic2(y), cubic3(y), cubic4(y)};
                real wz[4] = {cubic1(z), cubic2(z), cubic3(z), cubic4(z)};
                real sum = 0;
#pragma unroll
                for (int dk = 0; dk < 4; dk++)
#pragma unroll
                    for (int dj = 0; dj < 4; dj++)
#pragma unroll
                        for (int di = 0; di < 4; di++)
                            sum += wx[di] * wy[dj] * wz[dk]
                                 * at3(u0, i + di - 1, j + dj - 1, k + dk - 1);
                at3(u1, i, j, k) = sum;
            }
}
