// The halo of a tile is loaded on the left, and read on both sides.
// run 2 64 random:130:f32 zeros:128:f32
extern "C" __global__ void __launch_bounds__(64) halo_not_loaded(const float *in, float *out)
{
    __shared__ float tile[66];
    int t = threadIdx.x, first = blockIdx.x * 64;
    tile[t + 1] = in[first + t + 1];
    if (t == 0)
        tile[0] = in[first];
#ifdef MENDED
    if (t == 1)
        tile[65] = in[first + 65];
#endif
    __syncthreads();
    out[first + t] = tile[t] + tile[t + 1] + tile[t + 2]; // fault: undefined-value
}
