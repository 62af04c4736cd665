// Mean and variance of a row, each by warps and a buffer of its own.
// run 2 128 random:256:f32 random:128:f32:1 random:128:f32:2 zeros:256:f32
__device__ __forceinline__ float over_warp(float v)
{
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_xor_sync(0xffffffff, v, d);
    return v;
}

extern "C" __global__ void __launch_bounds__(128)
layer_norm(const float *in, const float *gain, const float *bias, float *out)
{
    __shared__ float means[4], squares[4];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    float v = in[i], sum = over_warp(v);
    if (t % 32 == 0)
        means[t / 32] = sum;
    __syncthreads();
    v -= (means[0] + means[1] + means[2] + means[3]) / 128.0f;
    sum = over_warp(v * v);
    if (t % 32 == 0)
        squares[t / 32] = sum;
    __syncthreads();
    float variance = (squares[0] + squares[1] + squares[2] + squares[3]) / 128.0f;
    out[i] = v * rsqrtf(variance + 1e-5f) * gain[t] + bias[t];
}
