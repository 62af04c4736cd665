// Lane 0 spins for a word that lane 1 writes after a barrier of the warp.
// run 1 32 zeros:32:s32
extern "C" __global__ void __launch_bounds__(32) lane_waits_for_lane(int *out)
{
    __shared__ volatile int word;
    int t = threadIdx.x;
    if (t == 0)
        word = 0;
    __syncwarp();
#ifdef MENDED
    if (t == 1)
        word = 5;
#endif
    if (t == 0)
        while (word == 0) // fault: deadlock
            ;
    __syncwarp(); // fault: deadlock
#ifndef MENDED
    if (t == 1)
        word = 5;
#endif
    out[t] = t;
}
