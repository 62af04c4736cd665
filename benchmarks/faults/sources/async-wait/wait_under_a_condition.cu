// Only warps that copied last wait, and all of them copied before.
// run 1 64 random:96:f32 zeros:64:f32
__device__ __forceinline__ void copy4(float *to, const float *from)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(from) : "memory");
}

extern "C" __global__ void __launch_bounds__(64) wait_under_a_condition(const float *in, float *out)
{
    __shared__ float s[96];
    int t = threadIdx.x;
    copy4(&s[t], &in[t]);
    if (t < 32) {
        copy4(&s[64 + t], &in[64 + t]);
#ifndef MENDED
        asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    }
#ifdef MENDED
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncthreads();
    out[t] = s[63 - t] + s[95 - t % 32]; // fault: async-wait
}
