// A transpose whose tile is swizzled instead of padded.
// run 2x2 16x16 32 random:1024:s32 zeros:1024:s32
extern "C" __global__ void __launch_bounds__(256) transpose_swizzled(int n, const int *in, int *out)
{
    __shared__ int tile[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    size_t x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
    tile[ty][tx ^ ty] = in[y * n + x];
    __syncthreads();
    x = blockIdx.y * 16 + tx;
    y = blockIdx.x * 16 + ty;
    out[y * n + x] = tile[tx][ty ^ tx];
}
