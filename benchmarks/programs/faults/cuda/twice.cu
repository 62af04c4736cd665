// A value is loaded before and after a barrier, though nobody has written it meanwhile.
extern "C" __global__ void __block_size__((128, 1, 1))
twice(const float *in, float *out)
{
    __shared__ float s[128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
#ifdef MENDED
    float own = in[i];
#else
#define own in[i]
#endif
    s[t] = own;
    __syncthreads();
    out[i] = own - s[127 - t];
}
