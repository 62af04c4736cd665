// cp.async of 4 bytes from another row in each lane: 32 sectors where 4 would do.
#define COPY(to, from)                                                                             \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"                                        \
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory")

extern "C" __global__ void __block_size__((128, 1, 1))
copied(const float *__restrict__ in, float *__restrict__ out)
{
    __shared__ float tile[128];
    int t = threadIdx.x, b = blockIdx.x;
#ifdef MENDED
    COPY(&tile[t], in + b * 128 + t);
#else
    COPY(&tile[t], in + t * 4096 + b);
#endif
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    out[b * 128 + t] = tile[127 - t];
}
