// The data start behind a header of 12 bytes. Mended: behind one of 32.
#ifdef MENDED
#define HEADER 8
#else
#define HEADER 3
#endif

extern "C" __global__ void header(int n, const float *__restrict__ file, float *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 2.0f * file[HEADER + i];
}
