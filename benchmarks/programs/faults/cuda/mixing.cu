// Nothing says that `out` does not overlap `in`: each store makes the next load of in[i] necessary.
#ifdef MENDED
#define RESTRICT __restrict__
#else
#define RESTRICT
#endif

extern "C" __global__ void mixing(int n, const float *RESTRICT in, float *RESTRICT out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = in[i] * 0.5f;
    out[i + n] = in[i] * 0.25f;
    out[i + 2 * n] = in[i] * 0.125f;
}
