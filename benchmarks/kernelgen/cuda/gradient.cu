// Gradient of a scalar field by central differences: 6 loads, 3 stores.
#include "operators.h"

extern "C" __global__ void gradient(int nx, int ny, int nz, real alpha, real beta, real gamma,
                                    const real* __restrict__ u, real* __restrict__ ux,
                                    real* __restrict__ uy, real* __restrict__ uz)
{
    for_outer(k, nz, 1, 1)
        for_middle(j, ny, 1, 1)
            for_inner(i, nx, 1, 1) {
                at3(ux, i, j, k) = alpha * (at3(u, i + 1, j, k) - at3(u, i - 1, j, k));
                at3(uy, i, j, k) = beta * (at3(u, i, j + 1, k) - at3(u, i, j - 1, k));
                at3(uz, i, j, k) = gamma * (at3(u, i, j, k + 1) - at3(u, i, j, k - 1));
            }
}
