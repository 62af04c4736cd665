// Two warps come to two barriers in opposite order.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) opposite_order(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = in[t];
    if (t < 32) {
        asm volatile("bar.sync 1, 64;" ::: "memory"); // fault: deadlock
        s[t] += s[t + 32];
        asm volatile("bar.sync 2, 64;" ::: "memory");
    } else {
#ifdef MENDED
        asm volatile("bar.sync 1, 64;" ::: "memory");
        asm volatile("bar.sync 2, 64;" ::: "memory");
#else
        asm volatile("bar.sync 2, 64;" ::: "memory"); // fault: deadlock
        asm volatile("bar.sync 1, 64;" ::: "memory");
#endif
    }
    out[t] = s[t % 32];
}
