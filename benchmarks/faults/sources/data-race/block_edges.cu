// Each block writes one element more than it owns, which the next block writes, too.
// run 3 64 zeros:193:f32 random:193:f32
extern "C" __global__ void __launch_bounds__(64) block_edges(float *out, const float *in)
{
    int first = blockIdx.x * 64;
#ifdef MENDED
    for (int k = threadIdx.x; k < 64; k += 64)
#else
    for (int k = threadIdx.x; k <= 64; k += 64)
#endif
        out[first + k] = in[first + k] * (float)(1 + blockIdx.x); // fault: data-race
}
