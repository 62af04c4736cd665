// A flag tells another block that data is there, and no fence keeps the two in order.
// run 2 32 zeros:32:s32 zeros:1:s32 zeros:32:s32
extern "C" __global__ void __launch_bounds__(32) flag_no_fence(int *data, volatile int *flag, int *out)
{
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        if (t == 0) {
            data[0] = 42; // fault: data-race
#ifdef MENDED
            __threadfence();
#endif
            *flag = 1;
        }
    } else if (t == 0) {
        while (*flag == 0)
            ;
#ifdef MENDED
        __threadfence();
#endif
        out[blockIdx.x] = data[0]; // fault: data-race
    }
}
