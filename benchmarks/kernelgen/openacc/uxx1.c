// Update of a velocity from three stresses (the seismic code's uxx1): 17 loads.
#include "operators.h"

void uxx1(int nx, int ny, int nz, real c1, real c2, real dth,
          const real* restrict d1, const real* restrict u0,
          const real* restrict xx, const real* restrict xy,
          const real* restrict xz, real* restrict u1)
{
#pragma acc parallel deviceptr(d1, u0, xx, xy, xz, u1) vector_length(32)
    for_outer(k, nz, 2, 2)
        for_middle(j, ny, 2, 2)
            for_inner(i, nx, 2, 2) {
                real d = (at3(d1, i, j, k) + at3(d1, i, j - 1, k)
                        + at3(d1, i, j, k - 1) + at3(d1, i, j - 1, k - 1)) * (real)0.25;
                at3(u1, i, j, k) = at3(u0, i, j, k) + dth / d * (
                      c1 * (at3(xx, i, j, k) - at3(xx, i - 1, j, k))
                    + c2 * (at3(xx, i + 1, j, k) - at3(xx, i - 2, j, k))
                    + c1 * (at3(xy, i, j, k) - at3(xy, i, j - 1, k))
                    + c2 * (at3(xy, i, j + 1, k) - at3(xy, i, j - 2, k))
                    + c1 * (at3(xz, i, j, k) - at3(xz, i, j, k - 1))
                    + c2 * (at3(xz, i, j, k + 1) - at3(xz, i, j, k - 2)));
            }
}
