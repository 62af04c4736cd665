// A thread sums a row of a sparse matrix; rows are of different lengths, so lanes wait for the
// longest. Mended: a warp sums a row.
extern "C" __global__ void rows(int n, const int *__restrict__ start,
                                const float *__restrict__ value, float *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    int row = i / 32, lane = threadIdx.x % 32;
    if (row >= n)
        return;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = start[row] + lane; k < start[row + 1]; k += 32)
        sum += value[k];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(~0u, sum, step);
    if (lane == 0)
        out[row] = sum;
#else
    if (i >= n)
        return;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = start[i]; k < start[i + 1]; k++)
        sum += value[k];
    out[i] = sum;
#endif
}
