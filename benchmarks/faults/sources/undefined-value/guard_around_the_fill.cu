// Threads beyond the end fill nothing, and all are read.
// run 2 64 100 random:100:f32 zeros:128:f32
extern "C" __global__ void __launch_bounds__(64) guard_around_the_fill(int n, const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (i < n)
        s[t] = in[i];
#ifdef MENDED
    else
        s[t] = 0;
#endif
    __syncthreads();
    out[i] = s[63 - t]; // fault: undefined-value
}
