// Pairs of floats from rows of 33.
// run 33 16 random:1089:f32 zeros:528:f32
extern "C" __global__ void __launch_bounds__(16) pairs_of_odd_rows(const float *in, float *out)
{
    int t = threadIdx.x;
    size_t row = blockIdx.x;
#ifdef MENDED
    float2 v = make_float2(in[row * 33 + 2 * t], in[row * 33 + 2 * t + 1]);
#else
    float2 v = *(const float2 *)(in + row * 33 + 2 * t); // fault: misaligned-access
#endif
    out[row * 16 + t] = v.x * v.y;
}
