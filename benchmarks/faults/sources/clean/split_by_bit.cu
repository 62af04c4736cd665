// One turn of a radix sort: zeros first, by ballots and a scan of warps.
// run 2 64 3 random:128:u32 zeros:128:u32
extern "C" __global__ void __launch_bounds__(64) split_by_bit(int bit, const unsigned *in, unsigned *out)
{
    __shared__ int zeros[2];
    int t = threadIdx.x, warp = t / 32, lane = t % 32, first = blockIdx.x * 64;
    unsigned key = in[first + t];
    bool one = key >> bit & 1;
    unsigned ones = __ballot_sync(0xffffffff, one);
    if (lane == 0)
        zeros[warp] = 32 - __popc(ones);
    __syncthreads();
    unsigned below = (1u << lane) - 1;
    int all = zeros[0] + zeros[1], place;
    if (one)
        place = all + __popc(ones & below) + (warp ? 32 - zeros[0] : 0);
    else
        place = __popc(~ones & below) + (warp ? zeros[0] : 0);
    out[first + place] = key;
}
