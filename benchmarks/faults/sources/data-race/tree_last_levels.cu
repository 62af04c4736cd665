// The last levels of a tree lack a barrier: one warp was once in lockstep.
// run 2 128 random:256:f32 zeros:2:f32
extern "C" __global__ void __launch_bounds__(128) tree_last_levels(const float *in, float *out)
{
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * 128 + t];
    __syncthreads();
#pragma unroll 1
    for (int step = 64; step > 0; step >>= 1) {
        if (t < step)
            s[t] += s[t + step]; // fault: data-race
#ifdef MENDED
        __syncthreads();
#else
        if (step > 32)
            __syncthreads();
#endif
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}
