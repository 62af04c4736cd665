// C = A * B^T in tiles of SIDE x SIDE. Both tiles are stored by rows; the second is loaded down a
// column by the threads of a row, PAD elements more in a row are the usual cure.
extern "C" __global__ void __launch_bounds__(SIDE * SIDE)
matmul(int n, const REAL* a, const REAL* b, REAL* c)
{
    __shared__ REAL as[SIDE][SIDE + PAD], bs[SIDE][SIDE + PAD];
    int width = n * SIDE, x = threadIdx.x, y = threadIdx.y;
    REAL sum = 0;
    for (int tile = 0; tile < n; ++tile) {
        as[y][x] = a[(blockIdx.y * SIDE + y) * width + tile * SIDE + x];
        bs[y][x] = b[(blockIdx.x * SIDE + y) * width + tile * SIDE + x];
        __syncthreads();
        for (int k = 0; k < SIDE; ++k)
            sum += as[y][k] * bs[x][k];
        __syncthreads();
    }
    c[(blockIdx.y * SIDE + y) * width + blockIdx.x * SIDE + x] = sum;
}
