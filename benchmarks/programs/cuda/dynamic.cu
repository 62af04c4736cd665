// As transpose.cu, with the tile in dynamic shared memory: rows are as long as the block is wide,
// so the launch decides whether the tile has whole rows of banks.
extern __shared__ float tile[];

extern "C" __global__ void dynamic(int n, const float* in, float* out)
{
    int side = blockDim.x, width = n * side, x = threadIdx.x, y = threadIdx.y;
    tile[y * side + x] = in[(blockIdx.y * side + y) * width + blockIdx.x * side + x];
    __syncthreads();
    out[(blockIdx.x * side + y) * width + blockIdx.y * side + x] = tile[x * side + y];
}
