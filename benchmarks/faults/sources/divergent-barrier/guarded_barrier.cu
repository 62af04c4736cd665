// A barrier under the guard that keeps the last threads from work.
// run 2 64 100 random:128:f32 zeros:128:f32
extern "C" __global__ void __launch_bounds__(64) guarded_barrier(int n, const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    float v = 0.0f;
#ifdef MENDED
    s[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    if (i < n)
        v = s[63 - t];
#else
    if (i < n) {
        s[t] = in[i];
        __syncthreads(); // fault: divergent-barrier
        v = s[t] + 1.0f;
    }
#endif
    out[i] = v;
}
