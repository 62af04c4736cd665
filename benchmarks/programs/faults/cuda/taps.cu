// All lanes load the same coefficient, element by element. Mended: it is in constant memory.
#ifdef MENDED
__constant__ float taps_c[64];
#endif

extern "C" __global__ void taps(int n, const float *__restrict__ in, float *__restrict__ out,
                                const float *__restrict__ t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < 64; k++)
#ifdef MENDED
        sum += taps_c[k] * in[k * 4096 + i];
#else
        sum += t[k] * in[k * 4096 + i];
#endif
    out[i] = sum;
}
