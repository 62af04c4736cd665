// A matrix times a vector: a row for each warp.
// run 2 64 4 50 random:200:f32 random:50:f32:1 zeros:4:f32
extern "C" __global__ void __launch_bounds__(64)
rows_by_warps(int rows, int n, const float *a, const float *x, float *y)
{
    int lane = threadIdx.x % 32, row = blockIdx.x * 2 + threadIdx.x / 32;
    if (row >= rows)
        return;
    float sum = 0;
    for (size_t i = lane; i < n; i += 32)
        sum += a[(size_t)row * n + i] * x[i];
    for (int d = 16; d > 0; d >>= 1)
        sum += __shfl_down_sync(0xffffffff, sum, d);
    if (lane == 0)
        y[row] = sum;
}
