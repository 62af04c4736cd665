// Two images of red, green, blue and opacity, a byte each, laid over one another.
struct Pixel { unsigned char r, g, b, a; };

static __device__ unsigned char over(unsigned char above, unsigned char below, unsigned a)
{
    return (unsigned char)((above * a + below * (255 - a) + 128) >> 8);
}

extern "C" __global__ void rgba(int n, const Pixel* above, const Pixel* below, Pixel* out)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    Pixel p = above[i], q = below[i];
    out[i] = {over(p.r, q.r, p.a), over(p.g, q.g, p.a), over(p.b, q.b, p.a), q.a};
}
