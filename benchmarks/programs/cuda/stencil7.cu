// A point and its six neighbours, as in Parboil's stencil; each thread goes up a column.
#define at(x, y, z) in[(x) + nx * ((y) + ny * (z))]

extern "C" __global__ void stencil7(
    int nx, int ny, int nz, float c0, float c1, const float* in, float* out)
{
    int x = 1 + threadIdx.x + blockDim.x * blockIdx.x;
    int y = 1 + blockIdx.y;
    if (x >= nx - 1)
        return;
    for (int z = 1; z < nz - 1; ++z)
        out[x + nx * (y + ny * z)] = c1 * (at(x, y, z + 1) + at(x, y, z - 1) + at(x, y + 1, z)
            + at(x, y - 1, z) + at(x + 1, y, z) + at(x - 1, y, z)) - c0 * at(x, y, z);
}
