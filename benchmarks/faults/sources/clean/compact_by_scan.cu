// Positive values of a block move together: places by a scan in shared memory.
// run 2 64 random:128:s32 zeros:128:s32 zeros:2:s32
extern "C" __global__ void __launch_bounds__(64) compact_by_scan(const int *in, int *out, int *counts)
{
    __shared__ int s[64];
    int t = threadIdx.x, first = blockIdx.x * 64, v = in[first + t], keep = v > 20;
    s[t] = keep;
    __syncthreads();
#pragma unroll 1
    for (int d = 1; d < 64; d *= 2) {
        int w = t >= d ? s[t - d] : 0;
        __syncthreads();
        s[t] += w;
        __syncthreads();
    }
    if (keep)
        out[first + s[t] - 1] = v;
    if (t == 63)
        counts[blockIdx.x] = s[63];
}
