// Dynamic shared memory of a word for each thread, where the kernel keeps two.
// launch 1 64 shared=256 random:64:f32 zeros:64:f32
extern __shared__ float s[];

extern "C" __global__ void __launch_bounds__(64) dynamic_too_small(const float *in, float *out)
{
    int t = threadIdx.x;
    s[t] = in[t];
#ifdef MENDED
    __syncthreads();
    out[t] = s[63 - t];
#else
    s[64 + t] = 2 * in[t]; // fault: out-of-bounds
    __syncthreads();
    out[t] = s[63 - t] + s[64 + (t ^ 1)];
#endif
}
