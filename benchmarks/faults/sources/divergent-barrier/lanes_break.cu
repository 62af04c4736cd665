// Lanes leave the loop one after another, and the barrier stays behind.
// run 1 32 random:32:f32 zeros:32:f32
extern "C" __global__ void __launch_bounds__(32) lanes_break(const float *in, float *out)
{
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
    float v = 0;
#pragma unroll 1
    for (int k = 0; k < 32; k++) {
#ifdef MENDED
        if (k <= t)
            v += s[k];
#else
        if (k > t)
            break;
        v += s[k];
#endif
        __syncthreads(); // fault: divergent-barrier
        if (t == k)
            s[t] = v;
        __syncthreads(); // fault: divergent-barrier // true: redundant-barrier
    }
    out[t] = v;
}
