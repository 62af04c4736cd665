// The details of a lifting step of the 5/3 wavelet: each thread takes an odd point of a row less
// the mean of its neighbours. Rows have an odd number of points, and HALF details each.
#ifndef HALF
#define HALF half
#endif
extern "C" __global__ void wavelet(unsigned half, unsigned rows, const float *in, float *details)
{
    unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= HALF * rows)
        return;
    unsigned row = t / HALF, k = t - row * HALF;
    const float *x = in + row * (2 * HALF + 1) + 2 * k;
    details[t] = x[1] - 0.5f * (x[0] + x[2]);
}
