// A pitch in bytes times a row, unsigned.
// run 2x3 64 400 3 random:300:f32 zeros:300:f32
// unseen: the launch that wraps is too large
extern "C" __global__ void __launch_bounds__(64)
unsigned_pitch(unsigned pitch, unsigned rows, const char *in, char *out)
{
    unsigned x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y;
    if (x < pitch / 4 && y < rows) {
#ifdef MENDED
        size_t at = (size_t)y * pitch + 4 * x;
#else
        unsigned at = y * pitch + 4 * x; // fault: index-overflow
#endif
        *(float *)(out + at) = *(const float *)(in + at); // fault: index-overflow
    }
}
