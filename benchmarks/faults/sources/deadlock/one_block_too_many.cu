// A barrier of the grid that waits for one block more than there are.
// run 3 32 zeros:1:u32 zeros:96:u32
extern "C" __global__ void __launch_bounds__(32) one_block_too_many(unsigned *count, unsigned *out)
{
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(count, 1);
#ifdef MENDED
        while (*(volatile unsigned *)count < gridDim.x)
#else
        while (*(volatile unsigned *)count <= gridDim.x) // fault: deadlock
#endif
            ;
        __threadfence();
    }
    __syncthreads();
    out[blockIdx.x * 32 + threadIdx.x] = 1;
}
