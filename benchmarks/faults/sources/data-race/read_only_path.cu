// Loads by the read-only path of what the same kernel has written.
// run 1 64 random:64:f32 zeros:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) read_only_path(const float *in, float *mid, float *out)
{
    int t = threadIdx.x;
    mid[t] = in[t] * 2; // fault: data-race
    __syncthreads();
#ifdef MENDED
    out[t] = mid[63 - t];
#else
    out[t] = __ldg(&mid[63 - t]); // fault: data-race
#endif
}
