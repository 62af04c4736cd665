// The tile is cleared while the copy into it is under way.
// run 1 64 40 random:64:f32 zeros:64:f32
__device__ __forceinline__ void copy4(float *to, const float *from)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(from) : "memory");
}

extern "C" __global__ void __launch_bounds__(64) cleared_while_copied(int n, const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
#ifdef MENDED
    if (t < n)
        copy4(&s[t], &in[t]);
    else
        s[t] = 0;
#else
    copy4(&s[t], &in[t]);
    if (t >= n)
        s[t] = 0; // fault: async-wait
#endif
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    out[t] = s[63 - t];
}
