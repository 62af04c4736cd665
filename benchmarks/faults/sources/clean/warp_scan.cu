// A scan of each warp by shuffles.
// run 2 64 random:128:s32 zeros:128:s32
extern "C" __global__ void __launch_bounds__(64) warp_scan(const int *in, int *out)
{
    int i = blockIdx.x * 64 + threadIdx.x, lane = threadIdx.x % 32, v = in[i];
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        int w = __shfl_up_sync(0xffffffff, v, d);
        if (lane >= d)
            v += w;
    }
    out[i] = v;
}
