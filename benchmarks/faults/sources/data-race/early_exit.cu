// The upper half leaves before the barrier, which does not wait for it.
// run 1 64 random:64:f32 zeros:32:f32
extern "C" __global__ void __launch_bounds__(64) early_exit(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = in[t]; // fault: data-race
#ifdef MENDED
    __syncthreads();
    if (t >= 32)
        return;
#else
    if (t >= 32)
        return;
    __syncthreads();
#endif
    out[t] = s[t] + s[t + 32]; // fault: data-race
}
