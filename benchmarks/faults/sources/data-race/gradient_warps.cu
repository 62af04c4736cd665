// A gradient that several warps add to without an atomic.
// run 2 128 random:256:f32 zeros:2:f32
extern "C" __global__ void __launch_bounds__(128) gradient_warps(const float *in, float *grad)
{
    float v = in[blockIdx.x * 128 + threadIdx.x];
    for (int d = 16; d > 0; d >>= 1)
        v += __shfl_down_sync(0xffffffff, v, d);
    if (threadIdx.x % 32 == 0) {
#ifdef MENDED
        atomicAdd(&grad[blockIdx.x], v);
#else
        grad[blockIdx.x] += v; // fault: data-race
#endif
    }
}
