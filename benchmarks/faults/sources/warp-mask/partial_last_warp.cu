// A block of 48: the last warp has 16 lanes, and its tree starts from 32.
// run 1 48 random:48:f32 zeros:2:f32
extern "C" __global__ void __launch_bounds__(48) partial_last_warp(const float *in, float *out)
{
    int t = threadIdx.x;
    float v = in[t];
#ifdef MENDED
    for (int d = 8; d > 0; d >>= 1)
        v += __shfl_down_sync(0xffffffff, v, d, 16);
    if (t % 16 == 0)
        atomicAdd(&out[t / 32], v);
#else
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_down_sync(0xffffffff, v, d); // fault: warp-mask
    if (t % 32 == 0)
        out[t / 32] = v;
#endif
}
