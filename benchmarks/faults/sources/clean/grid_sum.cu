// A loop over the grid, shuffles, and one atomic of each warp.
// run 2 64 300 random:300:s32 zeros:1:s32
extern "C" __global__ void __launch_bounds__(64) grid_sum(int n, const int *in, int *out)
{
    int sum = 0;
    for (size_t i = blockIdx.x * 64 + threadIdx.x; i < n; i += (size_t)gridDim.x * 64)
        sum += in[i];
    sum = __reduce_add_sync(0xffffffff, sum);
    if (threadIdx.x % 32 == 0)
        atomicAdd(out, sum);
}
