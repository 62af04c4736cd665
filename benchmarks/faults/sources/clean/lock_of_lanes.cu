// A lock that all lanes take in turn, each with its own exit from the loop.
// run 1 32 zeros:1:s32 zeros:1:s32
extern "C" __global__ void __launch_bounds__(32) lock_of_lanes(int *lock, int *sum)
{
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *(volatile int *)sum = *(volatile int *)sum + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}
