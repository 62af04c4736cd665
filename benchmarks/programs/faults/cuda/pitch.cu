// Rows of 1,001 floats: most of them begin in the middle of a sector. Mended: rows padded to 1,024.
#ifdef MENDED
#define PITCH 1024
#else
#define PITCH 1001
#endif

extern "C" __global__ void pitch(int rows, const float *__restrict__ in, float *__restrict__ out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= 1001)
        return;
    float sum = 0.0f;
#pragma unroll 1
    for (int y = 0; y < rows; y++)
        sum += in[y * PITCH + x];
    out[x] = sum;
}
