// The store goes down a column. Mended: through a tile in shared memory, both sides in rows.
#define SIDE 32

extern "C" __global__ void __block_size__((SIDE, 8, 1))
transpose(int width, int height, const float *__restrict__ in, float *__restrict__ out)
{
    int x = blockIdx.x * SIDE + threadIdx.x, y = blockIdx.y * SIDE + threadIdx.y;
#ifdef MENDED
    __shared__ float tile[SIDE][SIDE + 1];
    for (int k = 0; k < SIDE; k += 8)
        tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * width + x];
    __syncthreads();
    x = blockIdx.y * SIDE + threadIdx.x;
    y = blockIdx.x * SIDE + threadIdx.y;
    for (int k = 0; k < SIDE; k += 8)
        out[(y + k) * height + x] = tile[threadIdx.x][threadIdx.y + k];
#else
    for (int k = 0; k < SIDE; k += 8)
        out[x * height + y + k] = in[(y + k) * width + x];
#endif
}
