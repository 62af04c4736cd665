// The place of the largest value of each block, by pairs in a tree.
// run 2 128 random:256:f32 zeros:2:s32
extern "C" __global__ void __launch_bounds__(128) arg_max(const float *in, int *out)
{
    __shared__ float best[128];
    __shared__ int where[128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    best[t] = in[i];
    where[t] = i;
    __syncthreads();
#pragma unroll 1
    for (int step = 64; step > 0; step >>= 1) {
        if (t < step && best[t + step] > best[t]) {
            best[t] = best[t + step];
            where[t] = where[t + step];
        }
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = where[0];
}
