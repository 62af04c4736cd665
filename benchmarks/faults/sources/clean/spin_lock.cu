// A lock between blocks, with fences on both sides.
// run 3 32 zeros:1:s32 zeros:1:s32
extern "C" __global__ void __launch_bounds__(32) spin_lock(int *lock, int *sum)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0)
            ;
        __threadfence();
        *sum += blockIdx.x + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
