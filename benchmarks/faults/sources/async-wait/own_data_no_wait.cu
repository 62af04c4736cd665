// A thread reads what it copied itself, before its wait.
// run 1 64 random:64:f32 zeros:64:f32
__device__ __forceinline__ void copy4(float *to, const float *from)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(from) : "memory");
}

extern "C" __global__ void __launch_bounds__(64) own_data_no_wait(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    copy4(&s[t], &in[t]);
#ifdef MENDED
    asm volatile("cp.async.wait_all;" ::: "memory");
    out[t] = s[t] * 2;
#else
    out[t] = s[t] * 2; // fault: async-wait
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
