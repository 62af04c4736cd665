// Blocks of 100 threads leave 28 of 128 lanes without work.
#ifdef MENDED
#define THREADS 128
#else
#define THREADS 100
#endif

extern "C" __global__ void __block_size__((THREADS, 1, 1))
ragged(int n, const float *__restrict__ in, float *__restrict__ out)
{
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        out[i] = 2.0f * in[i];
}
