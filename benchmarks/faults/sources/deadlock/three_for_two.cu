// A barrier that waits for three warps, in a block of two.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) three_for_two(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = in[t];
#ifdef MENDED
    asm volatile("bar.sync 1, 64;" ::: "memory");
#else
    asm volatile("bar.sync 1, 96;" ::: "memory"); // fault: deadlock
#endif
    out[t] = s[63 - t];
}
