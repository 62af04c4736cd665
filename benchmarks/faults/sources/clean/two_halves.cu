// Two groups of warps with a barrier of their own each, and one of all at the end.
// run 1 128 random:128:f32 zeros:128:f32
extern "C" __global__ void __launch_bounds__(128) two_halves(const float *in, float *out)
{
    __shared__ float s[128];
    int t = threadIdx.x, half = t / 64, i = t % 64;
    s[t] = in[t];
    asm volatile("bar.sync %0, 64;" :: "r"(1 + half) : "memory");
    float v = s[half * 64 + 63 - i];
    asm volatile("bar.sync %0, 64;" :: "r"(1 + half) : "memory");
    s[t] = v * (half + 1);
    __syncthreads();
    out[t] = s[127 - t];
}
