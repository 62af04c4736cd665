// A step of Jacobi's iteration in two dimensions; each lane of a vector goes down a column.
void jacobi(int nx, int ny, float c, const float* in, float* out)
{
#pragma acc parallel loop gang vector vector_length(32) deviceptr(in, out)
    for (int x = 1; x < nx - 1; ++x) {
#pragma acc loop seq
        for (int y = 1; y < ny - 1; ++y)
            out[x + nx * y] = c * (in[x + nx * (y - 1)] + in[x + nx * (y + 1)] + in[x + 1 + nx * y]
                + in[x - 1 + nx * y]);
    }
}
