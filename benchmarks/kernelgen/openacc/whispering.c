// A step of Maxwell's equations in a whispering gallery, two dimensions: 19 loads, 4 stores. The
// permeability mu is that of the vacuum, all other coefficients vary in space.
#include "operators.h"

void whispering(int nx, int ny, real mu,
                const real* restrict ca, const real* restrict cb,
                const real* restrict da, const real* restrict db,
                const real* restrict eps,
                const real* restrict e0_0,
                const real* restrict e0_1,
                const real* restrict h, const real* restrict u0,
                real* restrict e1_0, real* restrict e1_1,
                real* restrict h1, real* restrict u1)
{
#pragma acc parallel deviceptr(ca, cb, da, db, eps, e0_0, e0_1, h, u0, e1_0, e1_1, h1, u1) vector_length(32)
    for_outer(j, ny, 1, 1)
        for_inner(i, nx, 1, 1) {
            real e0 = at2(ca, i, j) * at2(e0_0, i, j)
                + at2(cb, i, j) * (at2(h, i, j + 1) - at2(h, i, j));
            real e1 = at2(ca, i, j) * at2(e0_1, i, j)
                - at2(cb, i, j) * (at2(h, i + 1, j) - at2(h, i, j));
            real ey = at2(ca, i, j - 1) * at2(e0_0, i, j - 1)
                + at2(cb, i, j - 1) * (at2(h, i, j) - at2(h, i, j - 1));
            real ex = at2(ca, i - 1, j) * at2(e0_1, i - 1, j)
                - at2(cb, i - 1, j) * (at2(h, i, j) - at2(h, i - 1, j));
            real hn = at2(da, i, j) * at2(h, i, j) + at2(db, i, j) * (e0 - ey + ex - e1);
            at2(e1_0, i, j) = e0;
            at2(e1_1, i, j) = e1;
            at2(h1, i, j) = hn;
            at2(u1, i, j) = at2(u0, i, j)
                + (hn * hn / mu + at2(eps, i, j) * (e0 * e0 + e1 * e1)) * (real)0.5;
        }
}
