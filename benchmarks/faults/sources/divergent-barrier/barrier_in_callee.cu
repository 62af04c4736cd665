// A function that is not inlined has the barrier, and only some lanes call it.
// run 1 64 random:64:f32 zeros:64:f32
__device__ __noinline__ float exchanged(float *s, int t, float v)
{
    s[t] = v;
    __syncthreads(); // fault: divergent-barrier
    return s[t ^ 1];
}

extern "C" __global__ void __launch_bounds__(64) barrier_in_callee(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    float v = in[t];
#ifdef MENDED
    float w = exchanged(s, t, v);
    if (t % 4 < 2)
        v = w;
#else
    if (t % 4 < 2)
        v = exchanged(s, t, v); // fault: divergent-barrier
#endif
    out[t] = v;
}
