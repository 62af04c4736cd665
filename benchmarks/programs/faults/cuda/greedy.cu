// A block of 64 threads takes 40 KB of shared memory, so that few blocks fit a multiprocessor.
#ifdef MENDED
#define WORDS 1024
#else
#define WORDS 10240
#endif

extern "C" __global__ void __block_size__((64, 1, 1))
greedy(const float *__restrict__ in, float *__restrict__ out)
{
    __shared__ float s[WORDS];
    int t = threadIdx.x;
    for (int k = t; k < WORDS; k += 64)
        s[k] = in[blockIdx.x * WORDS + k];
    __syncthreads();
    for (int k = t; k < WORDS; k += 64)
        out[blockIdx.x * WORDS + k] = s[WORDS - 1 - k];
}
