// Two copies ahead, in a ring of two slots: the second goes where the data are being read.
// run 1 64 6 random:384:f32 zeros:64:f32
__device__ __forceinline__ void copy4(float *to, const float *from)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(from) : "memory");
}

#ifdef MENDED
#define SLOTS 3
#else
#define SLOTS 2
#endif

extern "C" __global__ void __launch_bounds__(64) two_stages_for_three(int turns, const float *in, float *out)
{
    __shared__ float s[SLOTS][64];
    int t = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 2; k++) {
        if (k < turns)
            copy4(&s[k][t], &in[k * 64 + t]);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
#pragma unroll 1
    for (int k = 0; k < turns; k++) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        if (k + 2 < turns)
            copy4(&s[(k + 2) % SLOTS][t], &in[(size_t)(k + 2) * 64 + t]);
        asm volatile("cp.async.commit_group;" ::: "memory");
        sum += s[k % SLOTS][63 - t]; // fault: async-wait
#ifndef MENDED
        __syncthreads();
#endif
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    out[t] = sum;
}
