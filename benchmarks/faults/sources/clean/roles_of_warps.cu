// One warp loads, one computes; named barriers say full and empty.
// run 1 64 5 random:160:f32 zeros:160:f32
extern "C" __global__ void __launch_bounds__(64) roles_of_warps(int turns, const float *in, float *out)
{
    __shared__ float slot[32];
    int t = threadIdx.x, lane = t % 32;
    if (t < 32) {
#pragma unroll 1
        for (int k = 0; k < turns; k++) {
            slot[lane] = in[(size_t)k * 32 + lane];
            asm volatile("bar.arrive 1, 64;" ::: "memory");
            asm volatile("bar.sync 2, 64;" ::: "memory");
        }
    } else {
#pragma unroll 1
        for (int k = 0; k < turns; k++) {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            out[(size_t)k * 32 + lane] = slot[31 - lane] * 2;
            asm volatile("bar.arrive 2, 64;" ::: "memory");
        }
    }
}
