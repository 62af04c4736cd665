// A tile is loaded again while others still read it: the second barrier of the loop is missing.
// target sm_90
// run 2 16x16 64 random:1024:f32 random:2048:f32 zeros:512:f32
extern "C" __global__ void __block_size__((16, 16, 1)) tile_loop(int k, const float *a, const float *b, float *c)
{
    __shared__ float x[16][16], y[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * 16 + tx;
    float sum = 0;
#pragma unroll 1
    for (int at = 0; at < k; at += 16) {
        x[ty][tx] = a[(size_t)ty * k + at + tx]; // fault: data-race
        y[ty][tx] = b[(size_t)(at + ty) * 32 + col]; // fault: data-race
        __syncthreads();
        for (int n = 0; n < 16; n++)
            sum += x[ty][n] * y[n][tx]; // fault: data-race
#ifdef MENDED
        __syncthreads();
#endif
    }
    c[ty * 32 + col] = sum;
}
