// A lock with tickets: each waits for its number.
// run 3 32 zeros:2:u32 zeros:1:s32
extern "C" __global__ void __launch_bounds__(32) ticket_lock(unsigned *lock, int *sum)
{
    if (threadIdx.x == 0) {
        unsigned mine = atomicAdd(&lock[0], 1);
        while (*(volatile unsigned *)&lock[1] != mine)
            ;
        __threadfence();
        *sum += blockIdx.x + 1;
        __threadfence();
        *(volatile unsigned *)&lock[1] = mine + 1;
    }
}
