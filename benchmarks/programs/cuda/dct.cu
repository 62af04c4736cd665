// Cosine transforms of 8 x 8 points, four to a warp: 8 threads take a row each, then a column each.
extern "C" __global__ void __launch_bounds__(32)
dct(const float* __restrict__ cosines, const float* in, float* out)
{
    __shared__ float tiles[4][8][8];
    int t = threadIdx.x % 8;
    float (*tile)[8] = tiles[threadIdx.x / 8];
    int start = (4 * blockIdx.x + threadIdx.x / 8) * 64;
    float x[8];
    for (int k = 0; k < 8; ++k)
        x[k] = in[start + 8 * t + k];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k)
            sum += cosines[8 * j + k] * x[k];
        tile[t][j] = sum;
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 8; ++k)
        x[k] = tile[k][t];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k)
            sum += cosines[8 * j + k] * x[k];
        tile[j][t] = sum;
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 8; ++k)
        out[start + 8 * t + k] = tile[t][k];
}
