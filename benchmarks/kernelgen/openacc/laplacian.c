// Seven-point Laplacian in three dimensions: 7 loads.
#include "operators.h"

void laplacian(int nx, int ny, int nz, real alpha, real beta,
               const real* restrict w0, real* restrict w1)
{
#pragma acc parallel deviceptr(w0, w1) vector_length(32)
    for_outer(k, nz, 1, 1)
        for_middle(j, ny, 1, 1)
            for_inner(i, nx, 1, 1)
                at3(w1, i, j, k) = alpha * at3(w0, i, j, k)
                    + beta * (at3(w0, i + 1, j, k) + at3(w0, i - 1, j, k)
                            + at3(w0, i, j + 1, k) + at3(w0, i, j - 1, k)
                            + at3(w0, i, j, k + 1) + at3(w0, i, j, k - 1));
}
