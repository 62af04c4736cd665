// Real and imaginary part of a complex number are loaded one by one.
extern "C" __global__ void magnitude(int n, const float *__restrict__ z, float *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
#ifdef MENDED
    float2 c = reinterpret_cast<const float2 *>(z)[i];
    out[i] = c.x * c.x + c.y * c.y;
#else
    out[i] = z[2 * i] * z[2 * i] + z[2 * i + 1] * z[2 * i + 1];
#endif
}
