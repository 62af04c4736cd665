// A tile is read by columns before all rows are there.
// run 2x2 16x16 32 random:1024:f32 zeros:1024:f32
extern "C" __global__ void __launch_bounds__(256) transpose_no_barrier(int n, const float *in, float *out)
{
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * n + x]; // fault: data-race
#ifdef MENDED
    __syncthreads();
#endif
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    out[y * n + x] = tile[threadIdx.x][threadIdx.y]; // fault: data-race
}
