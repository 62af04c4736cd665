// A product of matrices by tiles, in which x and y are swapped: every access goes down a column.
#define TILE 32
#ifdef MENDED
#define ACROSS y
#define ALONG x
#else
#define ACROSS x
#define ALONG y
#endif

__global__ void multiply(const float *A, const float *B, float *C, int M, int N, int K)
{
    __shared__ float As[TILE][TILE], Bs[TILE][TILE];
    int r = threadIdx.ACROSS, c = threadIdx.ALONG;
    int row = blockIdx.ACROSS * TILE + r;
    int col = blockIdx.ALONG * TILE + c;
    float sum = 0;
    for (int t = 0; t < K / TILE; t++) {
        As[r][c] = A[row * K + t * TILE + c];
        Bs[r][c] = B[(t * TILE + r) * N + col];
        __syncthreads();
        for (int k = 0; k < TILE; k++)
            sum += As[r][k] * Bs[k][c];
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = sum;
}

void launch(const float *A, const float *B, float *C, int n)
{
    dim3 block(TILE, TILE), grid(n / TILE, n / TILE);
    multiply<<<grid, block>>>(A, B, C, n, n, n);
}
