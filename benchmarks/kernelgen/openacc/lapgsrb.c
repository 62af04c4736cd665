// Laplacian with 25 points (the inner part of a red-black Gauss-Seidel step): 25 loads.
#include "operators.h"

void lapgsrb(int nx, int ny, int nz, real c0, real c1, real c2, real c3,
             const real* restrict w0, real* restrict w1)
{
#pragma acc parallel deviceptr(w0, w1) vector_length(32)
    for_outer(k, nz, 2, 2)
        for_middle(j, ny, 2, 2)
            for_inner(i, nx, 2, 2)
                at3(w1, i, j, k) = c0 * at3(w0, i, j, k)
                    + c1 * (at3(w0, i - 1, j, k) + at3(w0, i + 1, j, k)
                          + at3(w0, i, j - 1, k) + at3(w0, i, j + 1, k)
                          + at3(w0, i, j, k - 1) + at3(w0, i, j, k + 1))
                    + c2 * (at3(w0, i - 1, j - 1, k) + at3(w0, i + 1, j - 1, k)
                          + at3(w0, i - 1, j + 1, k) + at3(w0, i + 1, j + 1, k)
                          + at3(w0, i - 1, j, k - 1) + at3(w0, i + 1, j, k - 1)
                          + at3(w0, i, j - 1, k - 1) + at3(w0, i, j + 1, k - 1)
                          + at3(w0, i - 1, j, k + 1) + at3(w0, i + 1, j, k + 1)
                          + at3(w0, i, j - 1, k + 1) + at3(w0, i, j + 1, k + 1))
                    + c3 * (at3(w0, i - 2, j, k) + at3(w0, i + 2, j, k)
                          + at3(w0, i, j - 2, k) + at3(w0, i, j + 2, k)
                          + at3(w0, i, j, k - 2) + at3(w0, i, j, k + 2));
}
