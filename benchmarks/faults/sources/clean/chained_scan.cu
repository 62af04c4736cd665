// A scan over blocks: each waits for the sum of those before it.
// run 3 64 random:192:s32 zeros:192:s32 zeros:4:s32 zeros:4:u32
extern "C" __global__ void __launch_bounds__(64)
chained_scan(const int *in, int *out, volatile int *sums, volatile unsigned *ready)
{
    __shared__ int s[64];
    __shared__ int before;
    int t = threadIdx.x, b = blockIdx.x;
    s[t] = in[b * 64 + t];
    __syncthreads();
#pragma unroll 1
    for (int d = 1; d < 64; d *= 2) {
        int v = t >= d ? s[t - d] : 0;
        __syncthreads();
        s[t] += v;
        __syncthreads();
    }
    if (t == 0) {
        int sum = 0;
        if (b > 0) {
            while (ready[b - 1] == 0)
                ;
            __threadfence();
            sum = sums[b - 1];
        }
        before = sum;
        sums[b] = sum + s[63];
        __threadfence();
        ready[b] = 1;
    }
    __syncthreads();
    out[b * 64 + t] = before + s[t];
}
