// A sparse matrix times a vector: a row for each thread.
// run 1 64 20 iota:21:s32 random:20:s32 random:20:f32 random:64:f32:1 zeros:20:f32
extern "C" __global__ void __launch_bounds__(64)
sparse_rows(int rows, const int *start, const int *column, const float *value, const float *x, float *y)
{
    int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0;
    for (long long k = start[row], end = start[row + 1]; k < end; k++)
        sum += value[k] * x[column[k]];
    y[row] = sum;
}
