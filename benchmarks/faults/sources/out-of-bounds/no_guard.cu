// The grid covers 128 elements, the arrays have 100, and no guard says so.
// launch 2 64 100 random:100:f32 zeros:100:f32
extern "C" __global__ void __launch_bounds__(64) no_guard(int n, const float *in, float *out)
{
    int i = blockIdx.x * 64 + threadIdx.x;
#ifdef MENDED
    if (i < n)
#endif
        out[i] = 2 * in[i]; // fault: out-of-bounds
}
