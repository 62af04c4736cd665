// The last warp adds 32 slots up, and the block has 4 warps that fill them.
// run 2 128 random:256:f32 zeros:2:f32
extern "C" __global__ void __launch_bounds__(128) slots_of_absent_warps(const float *in, float *out)
{
    __shared__ float slot[32];
    int t = threadIdx.x;
    float v = in[blockIdx.x * 128 + t];
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_xor_sync(0xffffffff, v, d);
    if (t % 32 == 0)
        slot[t / 32] = v;
    __syncthreads();
    if (t < 32) {
#ifdef MENDED
        v = t < 4 ? slot[t] : 0.0f;
#else
        v = slot[t]; // fault: undefined-value
#endif
        for (int d = 16; d > 0; d >>= 1)
            v += __shfl_xor_sync(0xffffffff, v, d);
        if (t == 0)
            out[blockIdx.x] = v; // fault: undefined-value
    }
}
