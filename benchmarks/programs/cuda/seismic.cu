// Acoustic wave equation, second order in time and eighth in space, three dimensions: 27 loads.
#include "../../kernelgen/cuda/operators.h"

#define along(d) \
    (c1 * (p[at + (d)] + p[at - (d)]) + c2 * (p[at + 2 * (d)] + p[at - 2 * (d)]) \
     + c3 * (p[at + 3 * (d)] + p[at - 3 * (d)]) + c4 * (p[at + 4 * (d)] + p[at - 4 * (d)]))

extern "C" __global__ void seismic(int nx, int ny, int nz, real c0, real c1, real c2, real c3,
                                   real c4, const real* __restrict__ p,
                                   const real* __restrict__ old, const real* __restrict__ v,
                                   real* __restrict__ next)
{
    for_outer(k, nz, 4, 4)
        for_middle(j, ny, 4, 4)
            for_inner(i, nx, 4, 4) {
                int at = i + nx * (j + ny * k);
                real lap = c0 * p[at] + along(1) + along(nx) + along(nx * ny);
                next[at] = (real)2 * p[at] - old[at] + v[at] * lap;
            }
}
