// Pairs of blocks add to one word by atomics whose scope is the block.
// run 2 32 zeros:1:s32
extern "C" __global__ void __launch_bounds__(32) atomics_of_the_block(int *sums)
{
#ifdef MENDED
    atomicAdd(&sums[blockIdx.x / 2], (int)threadIdx.x);
#else
    atomicAdd_block(&sums[blockIdx.x / 2], (int)threadIdx.x); // fault: data-race
#endif
}
