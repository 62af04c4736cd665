// Fluxes of a compressible flow along i, eighth order, unrolled: density, pressure, velocity and
// the three momenta and energy at eight neighbours, 56 loads of seven arrays, five stores.
#include "../../kernelgen/cuda/operators.h"

#define diff(f)                                                              \
    (c1 * ((f(1)) - (f(-1))) + c2 * ((f(2)) - (f(-2))) + c3 * ((f(3)) - (f(-3))) \
     + c4 * ((f(4)) - (f(-4))))
#define mass(o) mx[at + (o)]
#define momx(o) mx[at + (o)] * u[at + (o)] + p[at + (o)]
#define momy(o) my[at + (o)] * u[at + (o)]
#define momz(o) mz[at + (o)] * u[at + (o)]
#define energy(o) (e[at + (o)] + p[at + (o)]) * u[at + (o)] + k[at + (o)]

extern "C" __global__ void flux(int nx, int ny, int nz, real c1, real c2, real c3, real c4,
                                const real* __restrict__ mx, const real* __restrict__ my,
                                const real* __restrict__ mz, const real* __restrict__ e,
                                const real* __restrict__ p, const real* __restrict__ u,
                                const real* __restrict__ k, real* __restrict__ fr,
                                real* __restrict__ fx, real* __restrict__ fy,
                                real* __restrict__ fz, real* __restrict__ fe)
{
    for_outer(l, nz, 0, 0)
        for_middle(j, ny, 0, 0)
            for_inner(i, nx, 4, 4) {
                int at = i + nx * (j + ny * l);
                fr[at] = -(diff(mass));
                fx[at] = -(diff(momx));
                fy[at] = -(diff(momy));
                fz[at] = -(diff(momz));
                fe[at] = -(diff(energy));
            }
}
