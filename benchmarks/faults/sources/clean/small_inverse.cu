// A triangular system of 32 unknowns, one column at a time, by a warp.
// run 2 32 random:2048:f32 random:64:f32:1 zeros:64:f32
extern "C" __global__ void __launch_bounds__(32)
small_inverse(const float *lower, const float *right, float *out)
{
    __shared__ float x[32];
    int t = threadIdx.x;
    const float *row = lower + (size_t)blockIdx.x * 1024 + t * 32;
    float v = right[blockIdx.x * 32 + t];
#pragma unroll 1
    for (int k = 0; k < 32; k++) {
        if (t == k)
            x[k] = v / (row[k] + 2.0f);
        __syncwarp();
        if (t > k)
            v -= row[k] * x[k];
    }
    out[blockIdx.x * 32 + t] = x[t];
}
