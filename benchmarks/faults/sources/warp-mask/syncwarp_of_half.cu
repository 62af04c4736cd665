// All lanes come to a barrier of half of the warp.
// run 1 32 random:32:f32 zeros:32:f32
extern "C" __global__ void __launch_bounds__(32) syncwarp_of_half(const float *in, float *out)
{
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = in[t];
#ifdef MENDED
    __syncwarp(t < 16 ? 0xffff : 0xffff0000);
#else
    __syncwarp(0xffff); // fault: warp-mask
#endif
    out[t] = t < 16 ? s[15 - t] : s[t];
}
