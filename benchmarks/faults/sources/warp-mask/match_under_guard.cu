// A match of all lanes, under a guard.
// run 1 32 20 random:32:u32 zeros:32:u32
extern "C" __global__ void __launch_bounds__(32) match_under_guard(int n, const unsigned *in, unsigned *out)
{
    int t = threadIdx.x;
#ifdef MENDED
    unsigned key = t < n ? in[t] : 0xffffffffu;
    unsigned same = __match_any_sync(0xffffffff, key);
    if (t < n)
        out[t] = same;
#else
    if (t < n)
        out[t] = __match_any_sync(0xffffffff, in[t]); // fault: warp-mask // true: deadlock
    __syncwarp();
    out[t] += 1;
#endif
}
