// A block reads a column of its neighbour's tile: one bank of the other's memory serves all lanes.
#ifdef MENDED
#define PITCH 33
#else
#define PITCH 32
#endif

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32)
peers(const float *__restrict__ in, float *__restrict__ out)
{
    __shared__ float tile[32 * PITCH];
    int t = threadIdx.x;
    unsigned rank, own, other;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    for (int k = 0; k < 32; k++)
        tile[k * PITCH + t] = in[blockIdx.x * 1024 + k * 32 + t];
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    own = (unsigned)__cvta_generic_to_shared(&tile[t * PITCH]);
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(own), "r"(rank ^ 1));
    float v;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(other) : "memory");
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    out[blockIdx.x * 32 + t] = v;
}
