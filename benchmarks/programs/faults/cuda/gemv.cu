// One thread a row of the matrix, in the order of the rows. Mended: the matrix is stored by columns.
extern "C" __global__ void gemv(int m, int n, const double *__restrict__ a,
                                const double *__restrict__ x, double *__restrict__ y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m)
        return;
    double sum = 0.0;
    for (int k = 0; k < n; k++)
#ifdef MENDED
        sum += a[(size_t)k * m + i] * __ldg(&x[k]);
#else
        sum += a[(size_t)i * n + k] * __ldg(&x[k]);
#endif
    y[i] = sum;
}
