// The loop asks a register: the compiler has loaded the word once, in front of it.
// run 2 32 zeros:1:s32 zeros:1:s32
extern "C" __global__ void __launch_bounds__(32) loaded_once(int *flag, int *out)
{
    if (threadIdx.x != 0)
        return;
    if (blockIdx.x == 0) {
        __threadfence();
        atomicExch(flag, 1);
    } else {
#ifdef MENDED
        while (*(volatile int *)flag == 0)
            ;
#else
        int seen = *(volatile int *)flag;
        while (seen == 0) // fault: deadlock
            asm volatile("" ::: "memory"); // fault: deadlock
#endif
        __threadfence();
        *out = 1;
    }
}
