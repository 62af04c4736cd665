// Six fields of one particle lie side by side: each load of a warp spreads over 24 sectors.
#ifdef MENDED
extern "C" __global__ void particles(int n, float dt, float *x, float *y, float *z,
                                     const float *__restrict__ u, const float *__restrict__ v,
                                     const float *__restrict__ w)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    x[i] += dt * u[i];
    y[i] += dt * v[i];
    z[i] += dt * w[i];
}
#else
struct Particle { float x, y, z, u, v, w; };

extern "C" __global__ void particles(int n, float dt, Particle *p)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    p[i].x += dt * p[i].u;
    p[i].y += dt * p[i].v;
    p[i].z += dt * p[i].w;
}
#endif
