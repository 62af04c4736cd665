// A loop over the grid.
// run 2 64 500 random:500:f32 zeros:500:f32
extern "C" __global__ void grid_stride_scale(long long n, const float *in, float *out)
{
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        out[i] = in[i] * 3.0f;
}
