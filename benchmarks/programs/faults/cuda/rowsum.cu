// Each thread sums its own row: the lanes of a warp stand 1,024 floats apart.
// Mended: each thread sums a column, and the lanes walk side by side.
extern "C" __global__ void rowsum(int n, const float *__restrict__ a, float *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = 0.0f;
    for (int k = 0; k < 1024; k++)
#ifdef MENDED
        sum += a[k * 4096 + i];
#else
        sum += a[i * 1024 + k];
#endif
    out[i] = sum;
}
