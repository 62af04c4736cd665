// Two groups in flight, and the wait leaves one of them: the one that is read.
// run 1 64 random:128:f32 zeros:64:f32
__device__ __forceinline__ void copy4(float *to, const float *from)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(from) : "memory");
}

extern "C" __global__ void __launch_bounds__(64) one_group_too_few(const float *in, float *out)
{
    __shared__ float s[2][64];
    int t = threadIdx.x;
    copy4(&s[0][t], &in[t]);
    asm volatile("cp.async.commit_group;" ::: "memory");
    copy4(&s[1][t], &in[64 + t]);
    asm volatile("cp.async.commit_group;" ::: "memory");
#ifdef MENDED
    asm volatile("cp.async.wait_group 0;" ::: "memory");
#else
    asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
    __syncthreads();
    out[t] = s[0][63 - t] + s[1][63 - t]; // fault: async-wait
}
