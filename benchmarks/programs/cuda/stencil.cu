// Seven neighbours in space, as in Parboil's stencil. Each thread walks along z.
#define AT(x, y, z) ((x) + nx * ((y) + ny * (z)))

extern "C" __global__ void stencil(int nx, int ny, int nz, float c0, float c1, const float *in,
                                   float *out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (x >= nx - 1 || y >= ny - 1) return;
    for (int z = 1; z < nz - 1; z++)
        out[AT(x, y, z)] =
            (in[AT(x, y, z + 1)] + in[AT(x, y, z - 1)] + in[AT(x, y + 1, z)] +
             in[AT(x, y - 1, z)] + in[AT(x + 1, y, z)] + in[AT(x - 1, y, z)]) * c1 -
            in[AT(x, y, z)] * c0;
}
