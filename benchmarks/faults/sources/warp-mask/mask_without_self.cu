// All lanes shuffle with the mask of the lower half.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) mask_without_self(const float *in, float *out)
{
    float v = in[threadIdx.x];
#ifdef MENDED
    v += __shfl_down_sync(0xffffffff, v, 8, 16);
#else
    v += __shfl_down_sync(0xffff, v, 8, 16); // fault: warp-mask
#endif
    out[threadIdx.x] = v;
}
