// Records of eight floats in shared memory: eight lanes share a bank. Mended: an array a field.
#define THREADS 128

extern "C" __global__ void __block_size__((THREADS, 1, 1))
records(const float *__restrict__ in, float *__restrict__ out)
{
    __shared__ float s[8 * THREADS];
    int t = threadIdx.x, b = blockIdx.x * 8 * THREADS;
#pragma unroll
    for (int f = 0; f < 8; f++)
        s[f * THREADS + t] = in[b + f * THREADS + t];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int f = 0; f < 8; f += 2)
#ifdef MENDED
        sum += s[f * THREADS + t];
#else
        sum += s[t * 8 + f];
#endif
    out[blockIdx.x * THREADS + t] = sum;
}
