// Jacobi iteration in two dimensions with all eight neighbours: 9 loads.
#include "operators.h"

void jacobi(int nx, int ny, real c0, real c1, real c2,
            const real* restrict w0, real* restrict w1)
{
#pragma acc parallel deviceptr(w0, w1) vector_length(32)
    for_outer(j, ny, 1, 1)
        for_inner(i, nx, 1, 1)
            at2(w1, i, j) = c0 * at2(w0, i, j)
                + c1 * (at2(w0, i - 1, j) + at2(w0, i, j - 1)
                      + at2(w0, i + 1, j) + at2(w0, i, j + 1))
                + c2 * (at2(w0, i - 1, j - 1) + at2(w0, i - 1, j + 1)
                      + at2(w0, i + 1, j - 1) + at2(w0, i + 1, j + 1));
}
