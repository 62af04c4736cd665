// Update of a velocity from three stresses (the seismic code's uxx1): 17 loads.
#include "operators.h"

extern "C" __global__ void uxx1(int nx, int ny, int nz, real c1, real c2, real dth,
                                const real* __restrict__ d1, const real* __restrict__ u0,
                                const real* __restrict__ xx, const real* __restrict__ xy,
                                const real* __restrict__ xz, real* __restrict__ u1)
{
    for_outer(k, nz, 2, 2)
        for_middle(j, ny, 2, 2)
            for_inner(i, nx, 2, 2) {
                real d = (at3(d1, i, j, k) + at3(d1, i, j - 1, k)
                        + at3(d1, i, j, k - 1) + at3(d1, i, j - 1, k - 1)) * (literal)0.25;
                at3(u1, i, j, k) = at3(u0, i, j, k) + dth / d * (
                      c1 * (at3(xx, i, j, k) - at3(xx, i - 1, j, k))
                    + c2 * (at3(xx, i + 1, j, k) - at3(xx, i - 2, j, k))
                    + c1 * (at3(xy, i, j, k) - at3(xy, i, j - 1, k))
                    + c2 * (at3(xy, i, j + 1, k) - at3(xy, i, j - 2, k))
                    + c1 * (at3(xz, i, j, k) - at3(xz, i, j, k - 1))
                    + c2 * (at3(xz, i, j, k + 1) - at3(xz, i, j, k - 2)));
            }
}
