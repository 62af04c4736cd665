// A reduction whose strides double: lanes meet in fewer and fewer banks. Mended: strides halve.
#define THREADS 256

extern "C" __global__ void __block_size__((THREADS, 1, 1))
treesum(const float *__restrict__ in, float *__restrict__ out)
{
    __shared__ float s[THREADS];
    int t = threadIdx.x;
    s[t] = in[blockIdx.x * THREADS + t];
    __syncthreads();
#ifdef MENDED
#pragma unroll 1
    for (int step = THREADS / 2; step > 0; step >>= 1) {
        if (t < step)
            s[t] += s[t + step];
        __syncthreads();
    }
#else
#pragma unroll 1
    for (int step = 1; step < THREADS; step *= 2) {
        int i = 2 * step * t;
        if (i < THREADS)
            s[i] += s[i + step];
        __syncthreads();
    }
#endif
    if (t == 0)
        out[blockIdx.x] = s[0];
}
