// An array of each thread is indexed by a value that only the run knows, so it lies in memory.
// Mended: every index is a number once the loops are unrolled.
extern "C" __global__ void window(int n, const float *__restrict__ in, float *__restrict__ out,
                                  int first)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float w[16];
#pragma unroll
    for (int k = 0; k < 16; k++)
        w[k] = in[k * n + i];
    float sum = 0.0f;
#ifdef MENDED
#pragma unroll
    for (int k = 0; k < 16; k++)
        sum = k >= first ? sum * 0.5f + w[k] : sum;
#else
#pragma unroll 1
    for (int k = first; k < 16; k++)
        sum = sum * 0.5f + w[k];
#endif
    out[i] = sum;
}
