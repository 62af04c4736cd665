// Sum of two arrays: 2 loads.
#include "operators.h"

void vecadd(int nx, int ny, int nz, const real* restrict a,
            const real* restrict b, real* restrict c)
{
#pragma acc parallel deviceptr(a, b, c) vector_length(32)
    for_outer(k, nz, 0, 0)
        for_middle(j, ny, 0, 0)
            for_inner(i, nx, 0, 0)
                at3(c, i, j, k) = at3(a, i, j, k) + at3(b, i, j, k);
}
