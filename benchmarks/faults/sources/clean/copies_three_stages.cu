// A ring of three slots: two copies ahead, one barrier a turn.
// run 1 64 7 random:448:f32 zeros:64:f32
__device__ __forceinline__ void copy4(float *to, const float *from)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(from) : "memory");
}

extern "C" __global__ void __launch_bounds__(64) copies_three_stages(int turns, const float *in, float *out)
{
    __shared__ float s[3][64];
    int t = threadIdx.x;
    float sum = 0;
    for (int k = 0; k < 2; k++) {
        if (k < turns)
            copy4(&s[k][t], &in[k * 64 + t]);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
#pragma unroll 1
    for (unsigned k = 0; k < turns; k++) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        if (k + 2 < turns)
            copy4(&s[(k + 2) % 3][t], &in[(size_t)(k + 2) * 64 + t]);
        asm volatile("cp.async.commit_group;" ::: "memory");
        sum += s[k % 3][63 - t];
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    out[t] = sum;
}
