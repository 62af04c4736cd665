// The mask is the vote on one condition, the branch is taken on another.
// run 1 32 random:32:s32 zeros:32:s32
extern "C" __global__ void __launch_bounds__(32) another_condition(const int *in, int *out)
{
    int t = threadIdx.x, v = in[t];
    unsigned mask = __ballot_sync(0xffffffff, v > 10);
#ifdef MENDED
    if (v > 10)
#else
    if (v > 30)
#endif
        v = __reduce_add_sync(mask, v); // fault: warp-mask // true: deadlock
    __syncwarp(); // true: deadlock
    out[t] = v;
}
