// A bitonic sort of a block in shared memory.
// run 2 64 random:256:u32 zeros:256:u32
extern "C" __global__ void __launch_bounds__(64) bitonic_shared(const unsigned *in, unsigned *out)
{
    __shared__ unsigned s[128];
    int t = threadIdx.x, first = blockIdx.x * 128;
    s[t] = in[first + t];
    s[t + 64] = in[first + t + 64];
#pragma unroll 1
    for (int size = 2; size <= 128; size *= 2)
#pragma unroll 1
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            int i = 2 * t - (t & (step - 1));
            unsigned x = s[i], y = s[i + step];
            if ((x > y) == ((i & size) == 0)) {
                s[i] = y;
                s[i + step] = x;
            }
        }
    __syncthreads();
    out[first + t] = s[t];
    out[first + t + 64] = s[t + 64];
}
