// Rows times width as an int: 65,536 rows of 65,536 are more than 2^31.
// run 2x4 16x4 24 14 random:336:f32 zeros:336:f32
// unseen: the launch that wraps is too large
extern "C" __global__ void __launch_bounds__(64)
row_times_width(int width, int height, const float *in, float *out)
{
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
    if (x < width && y < height) {
#ifdef MENDED
        size_t i = (size_t)y * width + x;
#else
        int i = y * width + x; // fault: index-overflow
#endif
        out[i] = 2 * in[i]; // fault: index-overflow
    }
}
