// A remainder of 64 bits in each iteration. Mended: a comparison and a subtraction.
extern "C" __global__ void wrapped(int rows, long long period, const float *__restrict__ table,
                                   float *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
#ifdef MENDED
    long long at = 0;
#endif
#pragma unroll 1
    for (long long y = 0; y < rows; y++) {
#ifdef MENDED
        sum += table[at * 4096 + i];
        at++;
        if (at == period)
            at = 0;
#else
        sum += table[y % period * 4096 + i];
#endif
    }
    out[i] = sum;
}
