// A product of matrices whose tiles come by asynchronous copies, one turn ahead.
// run 2x1 16x16 48 random:768:f32 random:1536:f32:1 zeros:512:f32
__device__ __forceinline__ void copy4(float *to, const float *from)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(from) : "memory");
}

extern "C" __global__ void __launch_bounds__(256)
product_async(int k, const float *a, const float *b, float *c)
{
    __shared__ float x[2][16][16], y[2][16][16];
    int tx = threadIdx.x, ty = threadIdx.y, now = 0;
    size_t col = blockIdx.x * 16 + tx, row = blockIdx.y * 16 + ty, width = (size_t)gridDim.x * 16;
    float sum = 0;
    copy4(&x[0][ty][tx], &a[row * k + tx]);
    copy4(&y[0][ty][tx], &b[ty * width + col]);
    asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll 1
    for (size_t at = 0; at < k; at += 16) {
        if (at + 16 < k) {
            copy4(&x[now ^ 1][ty][tx], &a[row * k + at + 16 + tx]);
            copy4(&y[now ^ 1][ty][tx], &b[(at + 16 + ty) * width + col]);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
#pragma unroll
        for (int n = 0; n < 16; n++)
            sum += x[now][ty][n] * y[now][n][tx];
        __syncthreads();
        now ^= 1;
    }
    c[row * width + col] = sum;
}
