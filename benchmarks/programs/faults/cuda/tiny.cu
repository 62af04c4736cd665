// Blocks of 16 threads fill half a warp.
#ifdef MENDED
#define THREADS 128
#else
#define THREADS 16
#endif

extern "C" __global__ void __block_size__((THREADS, 1, 1))
tiny(int n, const float *__restrict__ in, float *__restrict__ out)
{
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        out[i] = 2.0f * in[i];
}
