// The factor is loaded again in every iteration, since the store may have changed it.
#ifdef MENDED
#define RESTRICT __restrict__
#else
#define RESTRICT
#endif

extern "C" __global__ void scaled(int n, int rows, const float *RESTRICT factor,
                                  float *RESTRICT data)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
#pragma unroll 1
    for (int y = 0; y < rows; y++)
        data[y * 4096 + i] = factor[i] * 2.0f + (float)y;
}
