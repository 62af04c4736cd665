// A sum of each warp by shuffles.
// run 2 64 random:128:f32 zeros:4:f32
extern "C" __global__ void __launch_bounds__(64) warp_sum(const float *in, float *out)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    float v = in[i];
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_down_sync(0xffffffff, v, d);
    if (threadIdx.x % 32 == 0)
        out[i / 32] = v;
}
