// Block 1 waits for a word that block 0 does not write: it writes another.
// run 2 32 zeros:2:s32 zeros:1:s32
extern "C" __global__ void __launch_bounds__(32) flag_of_nobody(volatile int *flag, int *out)
{
    if (threadIdx.x != 0)
        return;
    if (blockIdx.x == 0) {
        __threadfence();
#ifdef MENDED
        flag[0] = 1;
#else
        flag[1] = 1;
#endif
    } else {
        while (flag[0] == 0) // fault: deadlock
            ;
        __threadfence();
        *out = 1;
    }
}
