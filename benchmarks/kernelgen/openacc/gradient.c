// Gradient of a scalar field by central differences: 6 loads, 3 stores.
#include "operators.h"

void gradient(int nx, int ny, int nz, real alpha, real beta, real gamma,
              const real* restrict u, real* restrict ux,
              real* restrict uy, real* restrict uz)
{
#pragma acc parallel deviceptr(u, ux, uy, uz) vector_length(32)
    for_outer(k, nz, 1, 1)
        for_middle(j, ny, 1, 1)
            for_inner(i, nx, 1, 1) {
                at3(ux, i, j, k) = alpha * (at3(u, i + 1, j, k) - at3(u, i - 1, j, k));
                at3(uy, i, j, k) = beta * (at3(u, i, j + 1, k) - at3(u, i, j - 1, k));
                at3(uz, i, j, k) = gamma * (at3(u, i, j, k + 1) - at3(u, i, j, k - 1));
            }
}
