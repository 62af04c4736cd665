// The magnetic field of FDTD in two dimensions; each thread goes down a column.
extern "C" __global__ void fdtd2d(int nx, int ny, const float* ex, const float* ey, float* hz)
{
    int x = threadIdx.x + blockDim.x * blockIdx.x;
    if (x >= nx - 1)
        return;
    for (int y = 0; y < ny - 1; ++y)
        hz[x + nx * y] -= 0.7f * (ex[x + 1 + nx * y] - ex[x + nx * y] + ey[x + nx * (y + 1)]
            - ey[x + nx * y]);
}
