// Three points along z, each thread going up a column: two of them the iteration before has loaded.
extern "C" __global__ void z_march(int nx, int ny, int nz, const float* in, float* out)
{
    int x = threadIdx.x + blockDim.x * blockIdx.x;
    int y = threadIdx.y + blockDim.y * blockIdx.y;
    if (x >= nx || y >= ny)
        return;
    int plane = nx * ny;
    for (int z = 1; z < nz - 1; ++z) {
        int i = (z * ny + y) * nx + x;
        out[i] = 0.5f * in[i] + 0.25f * (in[i - plane] + in[i + plane]);
    }
}
