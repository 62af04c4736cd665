// A spin lock whose release is a plain exchange: what it guards is not handed on.
// run 2 32 zeros:1:s32 zeros:1:s32
extern "C" __global__ void __launch_bounds__(32) lock_no_fence(int *lock, int *sum)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0)
            ;
        __threadfence();
        *sum += blockIdx.x + 1; // fault: data-race
#ifdef MENDED
        __threadfence();
#endif
        atomicExch(lock, 0);
    }
}
