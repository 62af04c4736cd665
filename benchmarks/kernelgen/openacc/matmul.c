// Product of two square-ish matrices, c[i,j] = sum over l of a[i,l] * b[l,j], the inner loop
// sequential: two loads a step, unrolled by the compiler.
#include "operators.h"

void matmul(int nx, int ny, int nl, const real* restrict a,
            const real* restrict b, real* restrict c)
{
#pragma acc parallel deviceptr(a, b, c) vector_length(32)
    for_outer(j, ny, 0, 0)
        for_inner(i, nx, 0, 0) {
            real sum = 0;
#pragma acc loop seq
            for (int l = 0; l < nl; l++)
                sum += a[i + nx * l] * b[l + nl * j];
            at2(c, i, j) = sum;
        }
}
