// Tricubic interpolation with loops and arrays of weights: 67 loads once the compiler has
// unrolled the loops.
#include "operators.h"
#include "weights.h"

void tricubic2(int nx, int ny, int nz, const real* restrict u0,
               real* restrict u1, const real* restrict a,
               const real* restrict b, const real* restrict c)
{
#pragma acc parallel deviceptr(u0, u1, a, b, c) vector_length(32)
    for_outer(k, nz, 1, 2)
        for_middle(j, ny, 1, 2)
            for_inner(i, nx, 1, 2) {
                real x = at3(a, i, j, k), y = at3(b, i, j, k), z = at3(c, i, j, k);
                real wx[4] = {cubic1(x), cubic2(x), cubic3(x), cubic4(x)};
                real wy[4] = {cubic1(y), cubic2(y), cubic3(y), cubic4(y)};
                real wz[4] = {cubic1(z), cubic2(z), cubic3(z), cubic4(z)};
                real sum = 0;
#pragma GCC unroll 4
                for (int dk = 0; dk < 4; dk++)
#pragma GCC unroll 4
                    for (int dj = 0; dj < 4; dj++)
#pragma GCC unroll 4
                        for (int di = 0; di < 4; di++)
                            sum += wx[di] * wy[dj] * wz[dk]
                                 * at3(u0, i + di - 1, j + dj - 1, k + dk - 1);
                at3(u1, i, j, k) = sum;
            }
}
