// The last block to come adds up the sums of all, after fences.
// run 3 64 random:192:f32 zeros:3:f32 zeros:1:u32 zeros:1:f32
extern "C" __global__ void __launch_bounds__(64)
last_block_sum(const float *in, volatile float *part, unsigned *count, float *out)
{
    __shared__ float s[64];
    __shared__ bool last;
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * 64 + t];
    __syncthreads();
#pragma unroll 1
    for (int step = 32; step > 0; step >>= 1) {
        if (t < step)
            s[t] += s[t + step];
        __syncthreads();
    }
    if (t == 0) {
        part[blockIdx.x] = s[0];
        __threadfence();
        unsigned ticket = atomicInc(count, gridDim.x - 1);
        last = ticket == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t == 0) {
        __threadfence();
        float sum = 0;
        for (unsigned k = 0; k < gridDim.x; k++)
            sum += part[k];
        *out = sum;
    }
}
