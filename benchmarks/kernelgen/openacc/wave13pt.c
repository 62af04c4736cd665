// A step of the wave equation, 13 points in space and 2 in time: 14 loads.
#include "operators.h"

void wave13pt(int nx, int ny, int nz, real c0, real c1, real c2,
              const real* restrict w0, const real* restrict w1,
              real* restrict w2)
{
#pragma acc parallel deviceptr(w0, w1, w2) vector_length(32)
    for_outer(k, nz, 2, 2)
        for_middle(j, ny, 2, 2)
            for_inner(i, nx, 2, 2)
                at3(w2, i, j, k) = c0 * at3(w1, i, j, k) - at3(w0, i, j, k)
                    + c1 * (at3(w1, i + 1, j, k) + at3(w1, i - 1, j, k)
                          + at3(w1, i, j + 1, k) + at3(w1, i, j - 1, k)
                          + at3(w1, i, j, k + 1) + at3(w1, i, j, k - 1))
                    + c2 * (at3(w1, i + 2, j, k) + at3(w1, i - 2, j, k)
                          + at3(w1, i, j + 2, k) + at3(w1, i, j - 2, k)
                          + at3(w1, i, j, k + 2) + at3(w1, i, j, k - 2));
}
