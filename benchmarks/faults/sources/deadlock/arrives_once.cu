// The producer arrives in its first turn only; the consumer waits in each.
// run 1 64 4 random:128:f32 zeros:128:f32
extern "C" __global__ void __launch_bounds__(64) arrives_once(int turns, const float *in, float *out)
{
    __shared__ float slot[32];
    int t = threadIdx.x, lane = t % 32;
    if (t < 32) {
#pragma unroll 1
        for (int k = 0; k < turns; k++) {
            slot[lane] = in[(size_t)k * 32 + lane];
#ifndef MENDED
            if (k == 0)
#endif
                asm volatile("bar.arrive 1, 64;" ::: "memory");
            asm volatile("bar.sync 2, 64;" ::: "memory"); // fault: deadlock
        }
    } else {
#pragma unroll 1
        for (int k = 0; k < turns; k++) {
            asm volatile("bar.sync 1, 64;" ::: "memory"); // fault: deadlock
            out[(size_t)k * 32 + lane] = slot[31 - lane];
            asm volatile("bar.arrive 2, 64;" ::: "memory");
        }
    }
}
