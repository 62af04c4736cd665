// A transpose with a padded tile of 32 by 32, eight rows at a time.
// run 2x2 32x8 64 64 random:4096:f32 zeros:4096:f32
extern "C" __global__ void __launch_bounds__(256)
transpose_padded(int width, int height, const float *in, float *out)
{
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (x < width && y + k < height)
            tile[threadIdx.y + k][threadIdx.x] = in[(size_t)(y + k) * width + x];
        else
            tile[threadIdx.y + k][threadIdx.x] = 0;
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (x < height && y + k < width)
            out[(size_t)(y + k) * height + x] = tile[threadIdx.x][threadIdx.y + k];
}
