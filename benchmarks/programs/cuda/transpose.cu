// A matrix of n x n tiles of SIDE x SIDE elements is transposed through shared memory: stored by
// rows, loaded by columns. PAD elements more in a row are the usual cure.
extern "C" __global__ void __launch_bounds__(SIDE * SIDE)
transpose(int n, const REAL* in, REAL* out)
{
    __shared__ REAL tile[SIDE][SIDE + PAD];
    int width = n * SIDE, x = threadIdx.x, y = threadIdx.y;
    tile[y][x] = in[(blockIdx.y * SIDE + y) * width + blockIdx.x * SIDE + x];
    __syncthreads();
    out[(blockIdx.x * SIDE + y) * width + blockIdx.y * SIDE + x] = tile[x][y];
}
