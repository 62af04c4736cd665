// A tile of 8 rows and 32 columns that is filled by columns.
// target sm_90
// run 1 32x8 random:256:f32 zeros:256:f32
extern "C" __global__ void __block_size__((32, 8, 1)) swapped_tile(const float *in, float *out)
{
#ifdef MENDED
    __shared__ float tile[32][9];
#else
    __shared__ float tile[8][33];
#endif
    int x = threadIdx.x, y = threadIdx.y;
    tile[x][y] = in[y * 32 + x]; // fault: out-of-bounds
    __syncthreads();
    int n = y * 32 + x;
    out[n] = tile[n / 8][n % 8];
}
