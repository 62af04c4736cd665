// Lattice-Boltzmann, D2Q9, one step of streaming (pull) and BGK collision on a layout of one
// array per direction: 9 loads, of which none lies beside another, and 9 stores.
#include "../../kernelgen/cuda/operators.h"

#define collide(out, f, w, ex, ey)                                                    \
    {                                                                                 \
        real eu = (real)(ex) * ux + (real)(ey) * uy;                                  \
        real eq = (real)(w) * rho                                                     \
            * ((real)1 + (real)3 * eu + (real)4.5 * eu * eu - (real)1.5 * uu);        \
        out[i + nx * j] = f - omega * (f - eq);                                       \
    }

extern "C" __global__ void lbm(int nx, int ny, real omega, const real* __restrict__ f0,
                               const real* __restrict__ f1, const real* __restrict__ f2,
                               const real* __restrict__ f3, const real* __restrict__ f4,
                               const real* __restrict__ f5, const real* __restrict__ f6,
                               const real* __restrict__ f7, const real* __restrict__ f8,
                               real* __restrict__ g0, real* __restrict__ g1,
                               real* __restrict__ g2, real* __restrict__ g3,
                               real* __restrict__ g4, real* __restrict__ g5,
                               real* __restrict__ g6, real* __restrict__ g7,
                               real* __restrict__ g8)
{
    for_outer(j, ny, 1, 1)
        for_inner(i, nx, 1, 1) {
            real a0 = at2(f0, i, j), a1 = at2(f1, i - 1, j), a2 = at2(f2, i, j - 1);
            real a3 = at2(f3, i + 1, j), a4 = at2(f4, i, j + 1), a5 = at2(f5, i - 1, j - 1);
            real a6 = at2(f6, i + 1, j - 1), a7 = at2(f7, i + 1, j + 1);
            real a8 = at2(f8, i - 1, j + 1);
            real rho = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8;
            real ux = (a1 + a5 + a8 - a3 - a6 - a7) / rho;
            real uy = (a2 + a5 + a6 - a4 - a7 - a8) / rho;
            real uu = ux * ux + uy * uy;
            collide(g0, a0, 4.0 / 9, 0, 0)
            collide(g1, a1, 1.0 / 9, 1, 0)
            collide(g2, a2, 1.0 / 9, 0, 1)
            collide(g3, a3, 1.0 / 9, -1, 0)
            collide(g4, a4, 1.0 / 9, 0, -1)
            collide(g5, a5, 1.0 / 36, 1, 1)
            collide(g6, a6, 1.0 / 36, -1, 1)
            collide(g7, a7, 1.0 / 36, -1, -1)
            collide(g8, a8, 1.0 / 36, 1, -1)
        }
}
