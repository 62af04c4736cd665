// Lanes of one key elect a leader, which adds for all of them.
// run 2 64 random:128:u32 zeros:64:u32
extern "C" __global__ void __launch_bounds__(64) keys_matched(const unsigned *in, unsigned *bins)
{
    unsigned key = in[blockIdx.x * 64 + threadIdx.x] & 63;
    unsigned same = __match_any_sync(0xffffffff, key);
    if (threadIdx.x % 32 == __ffs(same) - 1)
        atomicAdd(&bins[key], __popc(same));
}
