// A norm that uses one buffer for the mean and then for the variance.
// run 2 128 random:256:f32 zeros:256:f32
__device__ __forceinline__ float warp_sum(float v)
{
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_xor_sync(0xffffffff, v, d);
    return v;
}

extern "C" __global__ void __launch_bounds__(128) norm_reuse(const float *in, float *out)
{
    __shared__ float part[4];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    float v = in[i];
    float sum = warp_sum(v);
    if (t % 32 == 0)
        part[t / 32] = sum;
    __syncthreads();
    float mean = (part[0] + part[1] + part[2] + part[3]) / 128.0f; // fault: data-race
#ifdef MENDED
    __syncthreads();
#endif
    sum = warp_sum((v - mean) * (v - mean));
    if (t % 32 == 0)
        part[t / 32] = sum; // fault: data-race
    __syncthreads();
    float variance = (part[0] + part[1] + part[2] + part[3]) / 128.0f;
    out[i] = (v - mean) * rsqrtf(variance + 1e-5f);
}
