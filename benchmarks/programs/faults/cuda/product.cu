// A product of matrices in which each thread loads its row and its column by itself.
#define TILE 32

__global__ void product(const float *__restrict__ A, const float *__restrict__ B,
                        float *__restrict__ C, int n)
{
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
    float sum = 0;
#ifdef MENDED
    __shared__ float As[TILE][TILE], Bs[TILE][TILE];
    for (int t = 0; t < n; t += TILE) {
        As[ty][tx] = A[row * n + t + tx];
        Bs[ty][tx] = B[(t + ty) * n + col];
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            sum += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
#else
    for (int k = 0; k < n; k++)
        sum += A[row * n + k] * B[k * n + col];
#endif
    C[row * n + col] = sum;
}

void launch(const float *A, const float *B, float *C, int n)
{
    dim3 block(TILE, TILE), grid(n / TILE, n / TILE);
    product<<<grid, block>>>(A, B, C, n);
}
