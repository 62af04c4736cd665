// threadIdx.x runs down the rows, so that lanes are a whole row apart.
extern "C" __global__ void matadd(int rows, int cols, const float *__restrict__ a,
                                  const float *__restrict__ b, float *__restrict__ c)
{
#ifdef MENDED
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
#else
    int row = blockIdx.x * blockDim.x + threadIdx.x, col = blockIdx.y * blockDim.y + threadIdx.y;
#endif
    if (row < rows && col < cols)
        c[row * cols + col] = a[row * cols + col] + b[row * cols + col];
}
