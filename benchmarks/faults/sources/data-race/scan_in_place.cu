// A scan whose step reads and writes one buffer without a barrier between.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) scan_in_place(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
#pragma unroll 1
    for (int d = 1; d < 64; d *= 2) {
        float v = t >= d ? s[t - d] : 0.0f; // fault: data-race
#ifdef MENDED
        __syncthreads();
#endif
        s[t] += v; // fault: data-race
        __syncthreads();
    }
    out[t] = s[t];
}
