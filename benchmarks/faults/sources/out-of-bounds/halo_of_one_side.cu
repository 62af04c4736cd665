// A tile with a halo of 3 on both sides, and room for one of them.
// run 2 64 random:134:f32 zeros:128:f32
extern "C" __global__ void __launch_bounds__(64) halo_of_one_side(const float *in, float *out)
{
#ifdef MENDED
    __shared__ float tile[64 + 6];
#else
    __shared__ float tile[64 + 3];
#endif
    int t = threadIdx.x, first = blockIdx.x * 64;
    tile[t] = in[first + t];
    if (t < 6)
        tile[64 + t] = in[first + 64 + t]; // fault: out-of-bounds
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 7; k++)
        sum += tile[t + k]; // fault: out-of-bounds
    out[first + t] = sum;
}
