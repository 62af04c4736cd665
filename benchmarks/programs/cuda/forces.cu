// Forces between the particles of a box and those of a neighbouring one, which fall off
// exponentially, added up in memory as in lavaMD's inner loop.
#ifndef PARTICLES
#define PARTICLES 100
#endif

struct Body {
    float v, x, y, z;
};

extern "C" __global__ void forces(
    int n, float scale, const Body* at, const Body* near, const float* charge, Body* force)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    for (int j = 0; j < PARTICLES; ++j) {
        float r = at[i].v + near[j].v
            - (at[i].x * near[j].x + at[i].y * near[j].y + at[i].z * near[j].z);
        float v = __expf(-(scale * r));
        float f = 2.0f * v;
        force[i].v += charge[j] * v;
        force[i].x += charge[j] * (f * (at[i].x - near[j].x));
        force[i].y += charge[j] * (f * (at[i].y - near[j].y));
        force[i].z += charge[j] * (f * (at[i].z - near[j].z));
    }
}
