// The first thread reads the element before the array.
// run 1 128 random:128:f32 zeros:128:f32
extern "C" __global__ void __launch_bounds__(128) before_the_first(const float *in, float *out)
{
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
#ifdef MENDED
    float left = s[t > 0 ? t - 1 : 0];
#else
    float left = s[t - 1]; // fault: out-of-bounds
#endif
    out[t] = s[t] - left;
}
