// Barriers between shuffles, which exchange no memory.
// run 2 64 random:128:f32 zeros:4:f32
extern "C" __global__ void __launch_bounds__(64) between_shuffles(const float *in, float *out)
{
    float v = in[blockIdx.x * 64 + threadIdx.x];
#pragma unroll 1
    for (int d = 16; d > 0; d >>= 1) {
        v += __shfl_xor_sync(0xffffffff, v, d);
#ifndef MENDED
        __syncthreads(); // fault: redundant-barrier
#endif
    }
    if (threadIdx.x % 32 == 0)
        out[blockIdx.x * 2 + threadIdx.x / 32] = v;
}
