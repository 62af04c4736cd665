// Lanes beyond the end leave, and the others read their registers.
// run 2 32 40 random:40:f32 zeros:2:f32
extern "C" __global__ void __launch_bounds__(32) exited_source(int n, const float *in, float *out)
{
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
#ifdef MENDED
    float v = i < n ? in[i] : 0.0f;
#else
    if (i >= n)
        return;
    float v = in[i];
#endif
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_down_sync(0xffffffff, v, d); // fault: warp-mask
    if (t == 0)
        out[blockIdx.x] = v;
}
