// The consumer arrives at the barrier and reads on, where it has to wait.
// run 1 64 random:32:f32 zeros:32:f32
extern "C" __global__ void __launch_bounds__(64) consumer_arrives(const float *in, float *out)
{
    __shared__ float slot[32];
    int t = threadIdx.x;
    if (t < 32) {
        slot[t] = in[t]; // fault: data-race
#ifdef MENDED
        asm volatile("bar.arrive 1, 64;" ::: "memory");
#else
        asm volatile("bar.sync 1, 64;" ::: "memory");
#endif
    } else {
#ifdef MENDED
        asm volatile("bar.sync 1, 64;" ::: "memory");
#else
        asm volatile("bar.arrive 1, 64;" ::: "memory");
#endif
        out[t - 32] = slot[63 - t]; // fault: data-race
    }
}
