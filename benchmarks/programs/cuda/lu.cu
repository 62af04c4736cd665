// Blocks of 16 x 16 are factored into a lower and an upper triangle, 16 threads for each: a thread
// has a row while the factors of a column are made, and a column while the rest is updated.
extern "C" __global__ void __launch_bounds__(16) lu(REAL* blocks)
{
    __shared__ REAL a[16][16 + PAD];
    REAL* block = blocks + 256 * blockIdx.x;
    int t = threadIdx.x;
    for (int i = 0; i < 16; ++i)
        a[i][t] = block[16 * i + t];
    __syncthreads();
    for (int i = 0; i < 15; ++i) {
        if (t > i) {
            for (int k = 0; k < i; ++k)
                a[t][i] -= a[t][k] * a[k][i];
            a[t][i] /= a[i][i];
        }
        __syncthreads();
        if (t > i)
            for (int k = 0; k <= i; ++k)
                a[i + 1][t] -= a[i + 1][k] * a[k][t];
        __syncthreads();
    }
    for (int i = 0; i < 16; ++i)
        block[16 * i + t] = a[i][t];
}
