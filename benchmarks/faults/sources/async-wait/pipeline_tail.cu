// The last turn starts no copy and waits as if it had: one group may still be under way.
// run 1 64 5 random:320:f32 zeros:64:f32
__device__ __forceinline__ void copy4(float *to, const float *from)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(from) : "memory");
}

extern "C" __global__ void __launch_bounds__(64) pipeline_tail(int turns, const float *in, float *out)
{
    __shared__ float s[2][64];
    int t = threadIdx.x;
    float sum = 0;
    if (turns <= 0)
        return;
    copy4(&s[0][t], &in[t]);
    asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll 1
    for (int k = 0; k < turns; k++) {
        if (k + 1 < turns) {
            copy4(&s[(k + 1) & 1][t], &in[(size_t)(k + 1) * 64 + t]);
#ifndef MENDED
            asm volatile("cp.async.commit_group;" ::: "memory");
#endif
        }
#ifdef MENDED
        asm volatile("cp.async.commit_group;" ::: "memory");
#endif
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        sum += s[k & 1][63 - t]; // fault: async-wait
        __syncthreads();
    }
    out[t] = sum;
}
