// One tile by asynchronous copies of 16 bytes, then read in another order.
// run 2 64 random:512:f32 zeros:512:f32
extern "C" __global__ void __launch_bounds__(64) copies_staged(const float *in, float *out)
{
    __shared__ __align__(16) float s[256];
    int t = threadIdx.x;
    size_t first = (size_t)blockIdx.x * 256;
    unsigned to = (unsigned)__cvta_generic_to_shared(&s[4 * t]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(in + first + 4 * t) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    for (int k = 0; k < 4; k++)
        out[first + k * 64 + t] = s[255 - k * 64 - t];
}
