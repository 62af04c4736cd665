// A product of matrices by tiles of 16 by 16.
// target sm_90
// run 2x1 16x16 32 random:512:f32 random:1024:f32:1 zeros:512:f32
extern "C" __global__ void __block_size__((16, 16, 1))
product_tiled(int k, const float *a, const float *b, float *c)
{
    __shared__ float x[16][16], y[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    size_t col = blockIdx.x * 16 + tx, row = blockIdx.y * 16 + ty, width = (size_t)gridDim.x * 16;
    float sum = 0;
#pragma unroll 1
    for (size_t at = 0; at < k; at += 16) {
        x[ty][tx] = a[row * k + at + tx];
        y[ty][tx] = b[(at + ty) * width + col];
        __syncthreads();
#pragma unroll
        for (int n = 0; n < 16; n++)
            sum += x[ty][n] * y[n][tx];
        __syncthreads();
    }
    c[row * width + col] = sum;
}
