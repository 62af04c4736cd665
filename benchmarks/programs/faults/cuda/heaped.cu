// Dynamic shared memory for a long row of each of a few threads: one block fills a multiprocessor.
#define THREADS 64

template <int WORDS> __device__ void turn(const float *in, float *out)
{
    extern __shared__ float row[];
    int t = threadIdx.x, b = blockIdx.x * THREADS * WORDS;
    for (int k = 0; k < WORDS; k++)
        row[k * THREADS + t] = in[b + k * THREADS + t];
    __syncthreads();
    for (int k = 0; k < WORDS; k++)
        out[b + k * THREADS + t] = row[(WORDS - 1 - k) * THREADS + t];
}

#ifdef MENDED
__global__ void short_rows(const float *__restrict__ in, float *__restrict__ out)
{
    turn<32>(in, out);
}
#else
__global__ void long_rows(const float *__restrict__ in, float *__restrict__ out)
{
    turn<512>(in, out);
}
#endif

void launch(const float *in, float *out, int n)
{
#ifdef MENDED
    short_rows<<<n, THREADS, THREADS * 32 * sizeof(float)>>>(in, out);
#else
    long_rows<<<n, THREADS, THREADS * 512 * sizeof(float)>>>(in, out);
#endif
}
