// A step of Jacobi's iteration over the rows of a frame, of n points each, by one loop over all of
// its points: what `collapse(2)` makes of two loops.
extern "C" __global__ void collapsed(int n, int rows, float c, const float *in, float *out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * rows)
        return;
    int y = t / n + 1, x = t % n + 1, width = n + 2;
    out[y * width + x] = c * (in[y * width + x - 1] + in[y * width + x + 1]
        + in[(y - 1) * width + x] + in[(y + 1) * width + x]);
}
