// A step of Jacobi with a tile and its halo.
// run 2x2 16x16 32 random:1156:f32 zeros:1156:f32
extern "C" __global__ void __launch_bounds__(256) jacobi_tile(int n, const float *in, float *out)
{
    __shared__ float tile[18][18];
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    size_t x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty, pitch = (size_t)n + 2;
    tile[ty][tx] = in[y * pitch + x];
    if (ty == 1)
        tile[0][tx] = in[(y - 1) * pitch + x];
    if (ty == 16)
        tile[17][tx] = in[(y + 1) * pitch + x];
    if (tx == 1)
        tile[ty][0] = in[y * pitch + x - 1];
    if (tx == 16)
        tile[ty][17] = in[y * pitch + x + 1];
    __syncthreads();
    out[y * pitch + x] =
        0.25f * (tile[ty - 1][tx] + tile[ty + 1][tx] + tile[ty][tx - 1] + tile[ty][tx + 1]);
}
