// cp.async into one stage: each iteration waits for the copy that it has just started.
#define COPY(to, from)                                                                             \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"                                       \
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory")
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

extern "C" __global__ void __block_size__((128, 1, 1))
staged(int n, const float4 *__restrict__ in, float *__restrict__ out)
{
    __shared__ float4 tile[2][128];
    int t = threadIdx.x;
    float sum = 0;
#ifdef MENDED
    COPY(&tile[0][t], in + t);
    COMMIT();
#pragma unroll 1
    for (int k = 0; k < n; k++) {
        COPY(&tile[(k + 1) & 1][t], in + min(k + 1, n - 1) * 128 + t);
        COMMIT();
        WAIT(1);
        __syncthreads();
        float4 v = tile[k & 1][127 - t];
        sum += v.x + v.y + v.z + v.w;
        __syncthreads();
    }
#else
#pragma unroll 1
    for (int k = 0; k < n; k++) {
        COPY(&tile[0][t], in + k * 128 + t);
        COMMIT();
        WAIT(0);
        __syncthreads();
        float4 v = tile[0][127 - t];
        sum += v.x + v.y + v.z + v.w;
        __syncthreads();
    }
#endif
    out[t] = sum;
}
