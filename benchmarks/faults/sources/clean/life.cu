// A generation of life on a torus, with a tile and its halo loaded in two turns.
// run 2x2 8x8 16 random:256:s32 zeros:256:s32
extern "C" __global__ void __launch_bounds__(64) life(int n, const int *in, int *out)
{
    __shared__ int tile[10 * 10];
    int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 8, y = blockIdx.y * 8;
    for (int k = ty * 8 + tx; k < 100; k += 64) {
        size_t row = (unsigned)(y + k / 10 + n - 1) % (unsigned)n;
        unsigned col = (unsigned)(x + k % 10 + n - 1) % (unsigned)n;
        tile[k] = in[row * n + col] & 1;
    }
    __syncthreads();
    int sum = 0, at = (ty + 1) * 10 + tx + 1;
    for (int dy = -10; dy <= 10; dy += 10)
        for (int dx = -1; dx <= 1; dx++)
            sum += tile[at + dy + dx];
    sum -= tile[at];
    out[(size_t)(y + ty) * n + x + tx] = sum == 3 || (sum == 2 && tile[at]);
}
