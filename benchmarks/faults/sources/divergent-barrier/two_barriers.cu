// Both sides of a branch have a barrier of their own, and lanes of a warp take both.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) two_barriers(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
#ifdef MENDED
    s[t] = t % 2 ? in[t] : 2 * in[t];
    __syncthreads();
#else
    if (t % 2) {
        s[t] = in[t];
        asm volatile("bar.sync 0; // odd" ::: "memory"); // fault: divergent-barrier
    } else {
        s[t] = 2 * in[t];
        asm volatile("bar.sync 0; // even" ::: "memory"); // fault: divergent-barrier
    }
#endif
    out[t] = s[63 - t];
}
