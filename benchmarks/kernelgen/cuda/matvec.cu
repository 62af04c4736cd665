// Product of a matrix and a vector, y[i] = sum over j of a[i,j] * x[j], the inner loop sequential:
// two loads a step, unrolled by the compiler.
#include "operators.h"

extern "C" __global__ void matvec(int nx, int ny, const real* __restrict__ a,
                                  const real* __restrict__ x, real* __restrict__ y)
{
    for (int i = threadIdx.x + blockDim.x * blockIdx.x; i < nx; i += blockDim.x * gridDim.x) {
        real sum = 0;
        for (int j = 0; j < ny; j++)
            sum += at2(a, i, j) * x[j];
        y[i] = sum;
    }
}
