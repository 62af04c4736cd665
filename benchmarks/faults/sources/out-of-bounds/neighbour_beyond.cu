// The last thread reads its neighbour beyond the array.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) neighbour_beyond(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
#ifdef MENDED
    out[t] = t < 63 ? s[t] + s[t + 1] : s[t];
#else
    out[t] = s[t] + s[t + 1]; // fault: out-of-bounds
#endif
}
