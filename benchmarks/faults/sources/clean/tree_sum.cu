// A tree in shared memory, with a barrier after each level.
// target sm_90
// run 2 256 random:512:f32 zeros:2:f32
extern "C" __global__ void __block_size__((256, 1, 1)) tree_sum(const float *in, float *out)
{
    __shared__ float s[256];
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * 256 + t];
    __syncthreads();
#pragma unroll 1
    for (int step = 128; step > 0; step >>= 1) {
        if (t < step)
            s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = s[0];
}
