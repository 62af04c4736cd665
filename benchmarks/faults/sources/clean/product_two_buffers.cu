// A product of matrices whose next tiles are loaded while these are used.
// run 2x2 8x8 32 random:512:f32 random:512:f32:1 zeros:256:f32
extern "C" __global__ void __launch_bounds__(64)
product_two_buffers(int k, const float *a, const float *b, float *c)
{
    __shared__ float x[2][8][8], y[2][8][8];
    int tx = threadIdx.x, ty = threadIdx.y, now = 0;
    size_t col = blockIdx.x * 8 + tx, row = blockIdx.y * 8 + ty, width = (size_t)gridDim.x * 8;
    float sum = 0;
    x[0][ty][tx] = a[row * k + tx];
    y[0][ty][tx] = b[ty * width + col];
    __syncthreads();
#pragma unroll 1
    for (size_t at = 0; at < k; at += 8) {
        if (at + 8 < k) {
            x[now ^ 1][ty][tx] = a[row * k + at + 8 + tx];
            y[now ^ 1][ty][tx] = b[(at + 8 + ty) * width + col];
        }
#pragma unroll
        for (int n = 0; n < 8; n++)
            sum += x[now][ty][n] * y[now][n][tx];
        __syncthreads();
        now ^= 1;
    }
    c[row * width + col] = sum;
}
