// Half of the lanes shuffle, and the mask names all.
// run 1 32 random:32:f32 zeros:32:f32
extern "C" __global__ void __launch_bounds__(32) lower_half_shuffles(const float *in, float *out)
{
    int t = threadIdx.x;
    float v = in[t];
    if (t < 16) {
#ifdef MENDED
        v += __shfl_xor_sync(0xffff, v, 8);
#else
        v += __shfl_xor_sync(0xffffffff, v, 8); // fault: warp-mask // true: deadlock
#endif
        out[t] = v;
    }
    __syncwarp();
    out[t] = v;
}
