// The copy belongs to no group, so the wait for all groups does not cover it.
// run 1 64 random:64:f32 zeros:64:f32
__device__ __forceinline__ void copy4(float *to, const float *from)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(from) : "memory");
}

extern "C" __global__ void __launch_bounds__(64) not_committed(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    copy4(&s[t], &in[t]);
#ifdef MENDED
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[t] = s[63 - t]; // fault: async-wait
}
