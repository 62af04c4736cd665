// A product of two vectors: four elements a thread, then a tree of warps.
// run 2 128 random:1024:f32 random:1024:f32:1 zeros:1:f32
extern "C" __global__ void __launch_bounds__(128)
dot_product(const float4 *a, const float4 *b, float *out)
{
    __shared__ float part[4];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    float4 x = a[i], y = b[i];
    float v = x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
#pragma unroll 1
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_down_sync(0xffffffff, v, d);
    if (t % 32 == 0)
        part[t / 32] = v;
    __syncthreads();
    if (t == 0)
        atomicAdd(out, part[0] + part[1] + part[2] + part[3]);
}
