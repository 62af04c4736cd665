// Each thread scales one column. Without __restrict__ its factor is loaded again behind each store.
extern "C" __global__ void column_scale(int n, int rows, const float* b, float* a)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < n)
        for (int k = 0; k < rows; ++k)
            a[i + k * n] *= b[i];
}
