// Convolution with nine taps in one dimension, one point per thread: 18 loads, 9 of them of the
// taps, which are the same in all lanes.
#include "../../kernelgen/cuda/operators.h"

extern "C" __global__ void conv1d(int nx, const real* __restrict__ x,
                                  const real* __restrict__ taps, real* __restrict__ y)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x + 4;
    if (i >= nx - 4)
        return;
    real sum = 0;
#pragma unroll
    for (int t = -4; t <= 4; t++)
        sum += taps[t + 4] * x[i + t];
    y[i] = sum;
}
