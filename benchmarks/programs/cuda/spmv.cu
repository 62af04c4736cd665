// A sparse matrix in compressed rows times a vector, added up in memory: any x[...] might be y[i].
extern "C" __global__ void spmv(int n, const int* start, const int* column, const float* a,
                                const float* x, float* y)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < n)
        for (int k = start[i]; k < start[i + 1]; ++k)
            y[i] += a[k] * x[column[k]];
}
