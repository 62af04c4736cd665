// Reads a matrix by columns: known, and in the baseline.
__global__ void column_sums(const float *a, float *sums, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n)
        return;
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[row * n + i];
    sums[row] = sum;
}
