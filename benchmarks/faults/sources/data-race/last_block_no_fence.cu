// The last block to come adds up what the others wrote; they did not fence it.
// run 3 64 random:192:f32 zeros:3:f32 zeros:1:u32 zeros:1:f32
extern "C" __global__ void __launch_bounds__(64)
last_block_no_fence(const float *in, float *part, unsigned *count, float *out)
{
    __shared__ float s[64];
    __shared__ bool last;
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * 64 + t];
    __syncthreads();
    if (t == 0) {
        float sum = 0;
        for (int k = 0; k < 64; k++)
            sum += s[k];
        part[blockIdx.x] = sum; // fault: data-race
#ifdef MENDED
        __threadfence();
#endif
        last = atomicAdd(count, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t == 0) {
        __threadfence();
        float sum = 0;
        for (int k = 0; k < gridDim.x; k++)
            sum += part[k]; // fault: data-race
        *out = sum;
    }
}
