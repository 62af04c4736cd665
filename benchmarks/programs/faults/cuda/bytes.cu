// Four bytes of a pixel in four loads of a byte.
extern "C" __global__ void bytes(int n, const unsigned char *__restrict__ in,
                                 unsigned char *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
#ifdef MENDED
    uchar4 p = reinterpret_cast<const uchar4 *>(in)[i];
    out[i] = (p.x * 77 + p.y * 150 + p.z * 29 + p.w) >> 8;
#else
    const unsigned char *p = in + 4 * i;
    out[i] = (p[0] * 77 + p[1] * 150 + p[2] * 29 + p[3]) >> 8;
#endif
}
