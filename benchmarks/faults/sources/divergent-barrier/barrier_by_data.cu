// Only threads whose value is positive come to the barrier.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) barrier_by_data(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    float v = in[t];
    s[t] = v;
#ifdef MENDED
    __syncthreads();
    if (v > 0)
        v = s[63 - t];
#else
    if (v > 0) {
        __syncthreads(); // fault: divergent-barrier
        v = s[t] + 1;
    }
#endif
    out[t] = v;
}
