// A way out of the critical section without the unlock.
// run 2 32 random:64:s32 zeros:1:s32 zeros:1:s32
extern "C" __global__ void __launch_bounds__(32) never_unlocked(const int *in, int *lock, int *sum)
{
    if (threadIdx.x != 0)
        return;
    while (atomicCAS(lock, 0, 1) != 0) // fault: deadlock
        ;
    __threadfence();
    int v = *sum + blockIdx.x + 1;
    *sum = v;
#ifndef MENDED
    if (v > 0)
        return;
#endif
    __threadfence();
    atomicExch(lock, 0);
}
