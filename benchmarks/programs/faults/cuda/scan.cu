// The first half of a scan: the distance doubles in each step, and so do the bank conflicts.
#ifdef MENDED
#define AT(i) ((i) + (i) / 32)
#else
#define AT(i) (i)
#endif

extern "C" __global__ void __block_size__((128, 1, 1))
scan(const float *__restrict__ in, float *__restrict__ out)
{
    __shared__ float s[AT(256)];
    int t = threadIdx.x;
    s[AT(t)] = in[t];
    s[AT(t + 128)] = in[t + 128];
#pragma unroll
    for (int step = 2; step <= 256; step *= 2) {
        __syncthreads();
        if (t < 256 / step)
            s[AT(step * t + step - 1)] += s[AT(step * t + step / 2 - 1)];
    }
    __syncthreads();
    out[t] = s[AT(t)];
    out[t + 128] = s[AT(t + 128)];
}
