// C = A * B: once straight from global memory, once through tiles in shared memory.
#define TILE 32

extern "C" __global__ void naive(int n, const float* __restrict__ a, const float* __restrict__ b,
                                 float* __restrict__ c)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

extern "C" __global__ void tiled(int n, const float* __restrict__ a, const float* __restrict__ b,
                                 float* __restrict__ c)
{
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    float sum = 0.0f;
    for (int tile = 0; tile < n; tile += TILE) {
        left[y][x] = a[row * n + tile + x];
        right[y][x] = b[(tile + y) * n + column];
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < TILE; k++)
            sum += left[y][k] * right[k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
