// Long long indices are divided in a loop. Mended: they fit 32 bits.
#ifdef MENDED
typedef unsigned int Index;
#else
typedef unsigned long long Index;
#endif

extern "C" __global__ void unravel(Index n, Index width, const float *__restrict__ in,
                                   float *__restrict__ out)
{
    Index first = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
    for (Index i = first; i < n; i += gridDim.x * blockDim.x)
        out[i] = in[i] * (float)(i / width);
}
