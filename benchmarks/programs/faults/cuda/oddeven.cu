// Odd lanes do one thing, even lanes another, so that a warp does both. Mended: whole warps differ.
extern "C" __global__ void oddeven(const float *__restrict__ in, float *__restrict__ out)
{
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
#ifdef MENDED
    bool odd = t / 32 % 2;
#else
    bool odd = t % 2;
#endif
    float x = in[i];
    if (odd) {
#pragma unroll 1
        for (int k = 0; k < 64; k++)
            x = x * 1.5f - 0.25f;
    } else {
#pragma unroll 1
        for (int k = 0; k < 64; k++)
            x = __fsqrt_rn(x) + 0.125f;
    }
    out[i] = x;
}
