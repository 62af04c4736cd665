// All threads read a word; then the first warp reads it again, and its lane 0 writes it. The lanes
// of that warp have met in between, the other warps have not.
extern "C" __global__ void displaced(const int *in, int *out)
{
    __shared__ volatile int cell;
    if (threadIdx.x == 0) cell = in[0];
    __syncthreads();
    int sum = cell;
    if (threadIdx.x < 32) {
        sum += cell;
        __syncwarp();
        if (threadIdx.x == 0) cell = sum;
    }
    out[threadIdx.x] = sum;
}
// With a barrier of the block in between.
extern "C" __global__ void ordered(const int *in, int *out)
{
    __shared__ volatile int cell;
    if (threadIdx.x == 0) cell = in[0];
    __syncthreads();
    int sum = cell;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum += cell;
        __syncwarp();
        if (threadIdx.x == 0) cell = sum;
    }
    out[threadIdx.x] = sum;
}
// Every thread of the grid adds to a word, and then the last one that did reads it.
extern "C" __global__ void added(int *sum, int *out)
{
    atomicAdd(sum, 1);
    if (threadIdx.x == blockDim.x - 1) out[blockIdx.x] = *(volatile int *)sum;
}
