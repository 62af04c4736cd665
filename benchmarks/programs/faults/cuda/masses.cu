// One field of a record of 32 bytes is read: of each sector fetched, an eighth is used.
struct Body { float x, y, z, mass, u, v, w, charge; };

#ifdef MENDED
extern "C" __global__ void masses(int n, const float *__restrict__ mass, float *out)
#else
extern "C" __global__ void masses(int n, const Body *__restrict__ body, float *out)
#endif
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
#ifdef MENDED
    out[i] = 0.5f * mass[i];
#else
    out[i] = 0.5f * body[i].mass;
#endif
}
