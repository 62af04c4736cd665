// Bits of a condition, a word for each warp.
// run 2 64 random:128:f32 zeros:4:u32
extern "C" __global__ void __launch_bounds__(64) ballots_counted(const float *in, unsigned *out)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    unsigned bits = __ballot_sync(0xffffffff, in[i] > 0.25f);
    if (threadIdx.x % 32 == 0)
        out[i / 32] = bits;
}
