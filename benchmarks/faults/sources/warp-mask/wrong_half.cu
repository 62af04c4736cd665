// Tiles of 16 lanes, and both use the mask of the first.
// run 1 32 random:32:s32 zeros:32:u32
extern "C" __global__ void __launch_bounds__(32) wrong_half(const int *in, unsigned *out)
{
    int t = threadIdx.x;
#ifdef MENDED
    unsigned mask = 0xffffu << (t & 16);
#else
    unsigned mask = 0xffffu;
#endif
    out[t] = __ballot_sync(mask, in[t] > 30); // fault: warp-mask
}
