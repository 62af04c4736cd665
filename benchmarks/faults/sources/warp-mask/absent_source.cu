// The lower half reads a lane of the upper half, which takes no part.
// run 1 32 random:32:f32 zeros:32:f32
extern "C" __global__ void __launch_bounds__(32) absent_source(const float *in, float *out)
{
    int t = threadIdx.x;
    float v = in[t];
    if (t < 16) {
#ifdef MENDED
        v += __shfl_sync(0xffff, v, 15);
#else
        v += __shfl_sync(0xffff, v, 20); // fault: warp-mask
#endif
    }
    out[t] = v;
}
