// Out = In^T: straight, through a tile whose columns share a bank, and through a padded tile.
#define TILE 32

extern "C" __global__ void straight(int n, const float* __restrict__ in, float* __restrict__ out)
{
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    out[x * n + y] = in[y * n + x];
}

template <int WIDTH>
__device__ void through_tile(int n, const float* __restrict__ in, float* __restrict__ out)
{
    __shared__ float tile[TILE][WIDTH];
    int x = threadIdx.x, y = threadIdx.y, left = blockIdx.x * TILE, top = blockIdx.y * TILE;
    tile[y][x] = in[(top + y) * n + left + x];
    __syncthreads();
    out[(left + y) * n + top + x] = tile[x][y];
}

extern "C" __global__ void conflicting(int n, const float* __restrict__ in, float* __restrict__ out)
{
    through_tile<TILE>(n, in, out);
}

extern "C" __global__ void padded(int n, const float* __restrict__ in, float* __restrict__ out)
{
    through_tile<TILE + 1>(n, in, out);
}

// A matrix whose width is known: each lane is in another sector.
extern "C" __global__ void column(const float* __restrict__ in, float* __restrict__ out)
{
    out[threadIdx.x] = in[threadIdx.x * 1024];
}
