// A producer that is up to two slots ahead, each slot with its pair of barriers.
// run 1 64 3 random:192:f32 zeros:192:f32
extern "C" __global__ void __launch_bounds__(64) roles_with_two_slots(int pairs, const float *in, float *out)
{
    __shared__ float slot[2][32];
    int t = threadIdx.x, lane = t % 32;
    if (t < 32) {
#pragma unroll 1
        for (int k = 0; k < pairs; k++) {
            if (k > 0)
                asm volatile("bar.sync 3, 64;" ::: "memory");
            slot[0][lane] = in[(size_t)k * 64 + lane];
            asm volatile("bar.arrive 1, 64;" ::: "memory");
            if (k > 0)
                asm volatile("bar.sync 4, 64;" ::: "memory");
            slot[1][lane] = in[(size_t)k * 64 + 32 + lane];
            asm volatile("bar.arrive 2, 64;" ::: "memory");
        }
    } else {
#pragma unroll 1
        for (int k = 0; k < pairs; k++) {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            out[(size_t)k * 64 + lane] = slot[0][31 - lane];
            if (k + 1 < pairs)
                asm volatile("bar.arrive 3, 64;" ::: "memory");
            asm volatile("bar.sync 2, 64;" ::: "memory");
            out[(size_t)k * 64 + 32 + lane] = slot[1][31 - lane];
            if (k + 1 < pairs)
                asm volatile("bar.arrive 4, 64;" ::: "memory");
        }
    }
}
