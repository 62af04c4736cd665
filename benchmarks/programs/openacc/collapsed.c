// A step of Jacobi's iteration over a frame of points, whose two loops are collapsed into one.
void collapsed(int n, int rows, float c, const float* in, float* out)
{
#pragma acc parallel loop gang vector vector_length(32) collapse(2) deviceptr(in, out)
    for (int j = 1; j <= rows; ++j)
        for (int i = 1; i <= n; ++i) {
            const float* p = in + i + (n + 2) * j;
            out[i + (n + 2) * j] = c * (((p[-1] + p[1]) + p[-(n + 2)]) + p[n + 2]);
        }
}
