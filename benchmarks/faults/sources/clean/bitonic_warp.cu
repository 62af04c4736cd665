// A bitonic sort of each warp by shuffles.
// run 1 64 random:64:s32 zeros:64:s32
extern "C" __global__ void __launch_bounds__(64) bitonic_warp(const int *in, int *out)
{
    int i = blockIdx.x * 64 + threadIdx.x, lane = threadIdx.x % 32, v = in[i];
#pragma unroll
    for (int size = 2; size <= 32; size *= 2)
#pragma unroll
        for (int step = size / 2; step > 0; step /= 2) {
            int w = __shfl_xor_sync(0xffffffff, v, step);
            bool up = (lane & size) == 0, low = (lane & step) == 0;
            v = up == low ? min(v, w) : max(v, w);
        }
    out[i] = v;
}
