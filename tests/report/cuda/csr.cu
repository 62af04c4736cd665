// y = A * x for a sparse matrix in CSR form, one thread a row.
extern "C" __global__ void csr(int rows, const int* __restrict__ start, const int* __restrict__ column,
                               const float* __restrict__ value, const float* __restrict__ x,
                               float* __restrict__ y)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = start[row]; k < start[row + 1]; k++)
        sum += value[k] * x[column[k]];
    y[row] = sum;
}

// The same, one warp a row.
extern "C" __global__ void csr_warp(int rows, const int* __restrict__ start, const int* __restrict__ column,
                                    const float* __restrict__ value, const float* __restrict__ x,
                                    float* __restrict__ y)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = start[row] + lane; k < start[row + 1]; k += 32)
        sum += value[k] * x[column[k]];
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (lane == 0) y[row] = sum;
}
