// A step of Jacobi's iteration in two dimensions; each thread goes down a column.
extern "C" __global__ void jacobi(int nx, int ny, float c, const float* in, float* out)
{
    int x = 1 + threadIdx.x + blockDim.x * blockIdx.x;
    if (x >= nx - 1)
        return;
    for (int y = 1; y < ny - 1; ++y)
        out[x + nx * y] = c * (in[x + nx * (y - 1)] + in[x + nx * (y + 1)] + in[x + 1 + nx * y]
            + in[x - 1 + nx * y]);
}
