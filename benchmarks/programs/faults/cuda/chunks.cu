// Each thread takes 64 elements in a row; neighbours are 256 bytes apart.
// Mended: neighbours take neighbouring elements, and go on by the number of threads.
extern "C" __global__ void chunks(int n, const float *__restrict__ in, float *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    for (int k = i; k < n; k += gridDim.x * blockDim.x)
        out[k] = in[k] * in[k];
#else
    if (i * 64 + 64 > n)
        return;
#pragma unroll 1
    for (int k = 0; k < 64; k++)
        out[i * 64 + k] = in[i * 64 + k] * in[i * 64 + k];
#endif
}
