// A product of matrices: each thread holds 4 by 4 sums, tiles of 64 by 8 and 8 by 64.
// run 1 16x16 16 random:1024:f32 random:1024:f32:1 zeros:4096:f32
extern "C" __global__ void __launch_bounds__(256)
product_in_registers(int k, const float *a, const float *b, float *c)
{
    __shared__ __align__(16) float x[8][64], y[8][64];
    int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    float sum[4][4] = {};
#pragma unroll 1
    for (size_t at = 0; at < k; at += 8) {
        for (int n = t; n < 512; n += 256) {
            x[n % 8][n / 8] = a[(size_t)(n / 8) * k + at + n % 8];
            y[n / 64][n % 64] = b[(at + n / 64) * 64 + n % 64];
        }
        __syncthreads();
#pragma unroll
        for (int n = 0; n < 8; n++) {
            float4 u = *(float4 *)&x[n][ty * 4], v = *(float4 *)&y[n][tx * 4];
            float us[4] = {u.x, u.y, u.z, u.w}, vs[4] = {v.x, v.y, v.z, v.w};
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sum[i][j] += us[i] * vs[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(ty * 4 + i) * 64 + tx * 4 + j] = sum[i][j];
}
