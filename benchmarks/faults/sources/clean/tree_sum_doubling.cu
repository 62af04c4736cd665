// A tree whose strides double; the compiler unrolls it.
// run 2 128 random:256:s32 zeros:2:s32
extern "C" __global__ void __launch_bounds__(128) tree_sum_doubling(const int *in, int *out)
{
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * 128 + t];
#pragma unroll
    for (int step = 1; step < 128; step *= 2) {
        __syncthreads();
        if (t % (2 * step) == 0)
            s[t] += s[t + step];
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}
