// Blocks of 16 by 16: half of each warp takes the branch with the barrier.
// run 1 16x16 random:256:f32 zeros:256:f32
extern "C" __global__ void __launch_bounds__(256) half_rows(const float *in, float *out)
{
    __shared__ float s[16][17];
    int x = threadIdx.x, y = threadIdx.y;
    float v = in[y * 16 + x];
    s[y][x] = v;
    __syncthreads();
#ifdef MENDED
    float w = s[x][y];
    __syncthreads();
    if (y % 2 == 0)
        s[y][x] = w;
    __syncthreads();
#else
    if (y % 2 == 0) {
        float w = s[y][x] * 2;
        __syncthreads(); // fault: divergent-barrier
        s[y][x] = w;
    }
    __syncthreads(); // fault: divergent-barrier
#endif
    out[y * 16 + x] = s[x][y];
}
