// More sums under way than there are registers for a thread of 16 warps.
// target sm_90a
// block 512
// unseen: only ptxas knows
__device__ __forceinline__ unsigned long long tile(const void *shared)
{
    return ((unsigned)__cvta_generic_to_shared(shared) >> 4 & 0x3fff) | 8ull << 16 | 8ull << 32;
}

__device__ __forceinline__ void product(float (&d)[4], const void *a, const void *b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;" // fault: ptxas-warning
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(tile(a)), "l"(tile(b))); // fault: ptxas-warning
}

__device__ __forceinline__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); } // fault: ptxas-warning

__device__ __forceinline__ void commit_and_wait()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

#ifdef MENDED
#define TILES 4
#else
#define TILES 48
#endif

extern "C" __global__ void __launch_bounds__(512) too_many_sums(float *out) // fault: ptxas-warning
{
    __shared__ __align__(128) unsigned short a[64 * 16], b[16 * 8];
    float d[TILES][4];
    for (int k = 0; k < TILES; k++)
        for (int n = 0; n < 4; n++)
            d[k][n] = out[(k * 4 + n) * 512 + threadIdx.x];
    fence();
    for (int k = 0; k < TILES; k++)
        product(d[k], a, b); // fault: ptxas-warning
    commit_and_wait();
    for (int k = 0; k < TILES; k++)
        for (int n = 0; n < 4; n++)
            out[(k * 4 + n) * 512 + threadIdx.x] = d[k][n];
}
