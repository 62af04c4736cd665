// The lane that has the lock waits for lanes that spin for it.
// run 1 32 zeros:1:s32 zeros:1:s32
extern "C" __global__ void __launch_bounds__(32) syncwarp_in_a_lock(int *lock, int *sum)
{
    while (atomicCAS(lock, 0, 1) != 0) // fault: deadlock
        ;
    __threadfence();
#ifndef MENDED
    __syncwarp(); // fault: deadlock
#endif
    *sum += threadIdx.x;
    __threadfence();
    atomicExch(lock, 0);
}
