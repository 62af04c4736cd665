// Pixel times channels plus channel, all of them 32 bits wide.
// run 2 64 100 3 random:300:f32 zeros:300:f32
// unseen: the launch that wraps is too large
extern "C" __global__ void __launch_bounds__(64)
channels_last(int pixels, int channels, const float *in, float *out)
{
    int p = blockIdx.x * 64 + threadIdx.x;
    if (p >= pixels)
        return;
#pragma unroll 1
    for (int c = 0; c < channels; c++) {
#ifdef MENDED
        size_t i = (size_t)p * channels + c;
#else
        int i = p * channels + c; // fault: index-overflow
#endif
        out[i] = in[i] * 0.5f; // fault: index-overflow
    }
}
