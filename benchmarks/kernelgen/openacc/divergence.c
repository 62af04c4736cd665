// Divergence of a vector field by central differences: 6 loads.
#include "operators.h"

void divergence(int nx, int ny, int nz, real alpha, real beta, real gamma,
                const real* restrict ux, const real* restrict uy,
                const real* restrict uz, real* restrict u)
{
#pragma acc parallel deviceptr(ux, uy, uz, u) vector_length(32)
    for_outer(k, nz, 1, 1)
        for_middle(j, ny, 1, 1)
            for_inner(i, nx, 1, 1)
                at3(u, i, j, k) = alpha * (at3(ux, i + 1, j, k) - at3(ux, i - 1, j, k))
                    + beta * (at3(uy, i, j + 1, k) - at3(uy, i, j - 1, k))
                    + gamma * (at3(uz, i, j, k + 1) - at3(uz, i, j, k - 1));
}
