// The offset in bytes is a 32-bit product.
// run 2 64 100 random:100:f32 zeros:100:f32
// unseen: the launch that wraps is too large
extern "C" __global__ void __launch_bounds__(64) bytes_in_int(int n, const char *in, char *out)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) {
#ifdef MENDED
        size_t at = (size_t)i * 4;
#else
        unsigned at = (unsigned)i * 4; // fault: index-overflow
#endif
        *(float *)(out + at) = *(const float *)(in + at) * 2; // fault: index-overflow
    }
}
