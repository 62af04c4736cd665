// A loop over the grid, whose index is raised once more than it may.
// run 2 64 200 random:200:f32 zeros:200:f32
// unseen: the launch that wraps is too large
extern "C" __global__ void __launch_bounds__(64) stride_past_the_end(int n, const float *in, float *out)
{
#ifdef MENDED
#pragma unroll 1
    for (long long i = blockIdx.x * 64 + threadIdx.x; i < n; i += (long long)gridDim.x * 64)
#else
#pragma unroll 1
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) // fault: index-overflow
#endif
        out[i] = 2 * in[i]; // fault: index-overflow
}
