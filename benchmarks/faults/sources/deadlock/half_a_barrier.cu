// A barrier for 64 threads, to which one warp comes.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) half_a_barrier(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = in[t];
#ifdef MENDED
    asm volatile("bar.sync 1, 64;" ::: "memory");
#else
    if (t < 32)
        asm volatile("bar.sync 1, 64;" ::: "memory"); // fault: deadlock
#endif
#ifdef MENDED
    out[t] = s[63 - t];
#else
    out[t] = s[t];
#endif
}
