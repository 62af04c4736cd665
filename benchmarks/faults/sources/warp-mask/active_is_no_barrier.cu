// The active lanes of a moment are taken for all that took the branch.
// run 1 32 random:32:s32 zeros:32:s32
extern "C" __global__ void __launch_bounds__(32) active_is_no_barrier(const int *in, int *out)
{
    int t = threadIdx.x, v = in[t];
#ifdef MENDED
    unsigned mask = __ballot_sync(0xffffffff, v > 20);
#endif
    if (v > 20) {
#ifndef MENDED
        unsigned mask = __activemask();
#endif
        int first = __ffs(__ballot_sync(0xffffffff >> 0 & mask, v == v)) - 1;
#ifdef MENDED
        v = __shfl_sync(mask, v, first);
#else
        v = __shfl_sync(mask, v, (t + 7) % 32); // fault: warp-mask
#endif
        out[t] = v + first;
    }
}
