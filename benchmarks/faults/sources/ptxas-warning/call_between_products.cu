// A function that is not inlined is called while a product is under way.
// target sm_90a
// block 128
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

__device__ __forceinline__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void commit_and_wait()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

__device__ __noinline__ float distant(float v, float *out)
{
    out[128] = v;
    return v * 2;
}

extern "C" __global__ void __launch_bounds__(128) call_between_products(float v, float *out)
{
    __shared__ __align__(128) unsigned short a[64 * 16], b[16 * 8];
    float d[4] = {};
#ifdef MENDED
    v = distant(v, out);
#endif
    fence();
    product(d, a, b); // fault: ptxas-warning
#ifndef MENDED
    v = distant(v, out);
#endif
    product(d, a, b);
    commit_and_wait();
    out[threadIdx.x] = d[0] + d[1] + d[2] + d[3] + v;
}
