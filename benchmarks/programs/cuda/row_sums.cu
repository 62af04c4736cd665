// A matrix, stored by columns, times a vector; the sum of each row is kept in memory.
extern "C" __global__ void row_sums(int n, int columns, const float* a, const float* x, float* y)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < n)
        for (int j = 0; j < columns; ++j)
            y[i] += a[i + j * n] * x[j];
}
