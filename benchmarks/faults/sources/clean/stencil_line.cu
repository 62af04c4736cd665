// A stencil of radius 3 along a line, with a halo in shared memory.
// run 2 64 128 random:128:f32 zeros:128:f32
extern "C" __global__ void __launch_bounds__(64) stencil_line(int n, const float *in, float *out)
{
    __shared__ float tile[70];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    tile[t + 3] = i < n ? in[i] : 0.0f;
    if (t < 3) {
        tile[t] = i >= 3 ? in[i - 3] : 0.0f;
        tile[t + 67] = (long long)i + 64 < n ? in[i + 64] : 0.0f;
    }
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 7; k++)
        sum += tile[t + k] * (k + 1);
    if (i < n)
        out[i] = sum;
}
