// Every thread adds to one word of shared memory.
extern "C" __global__ void __block_size__((256, 1, 1))
tally(const float *__restrict__ in, float *__restrict__ out)
{
    __shared__ float all;
    int t = threadIdx.x;
    float x = in[blockIdx.x * 256 + t];
    if (t == 0)
        all = 0.0f;
    __syncthreads();
#ifdef MENDED
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_down_sync(~0u, x, step);
    if (t % 32 == 0)
        atomicAdd(&all, x);
#else
    atomicAdd(&all, x);
#endif
    __syncthreads();
    if (t == 0)
        out[blockIdx.x] = all;
}
