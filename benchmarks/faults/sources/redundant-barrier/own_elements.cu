// Each thread reads only what it wrote itself.
// run 1 64 4 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) own_elements(int turns, const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = in[t];
#pragma unroll 1
    for (int k = 0; k < turns; k++) {
        s[t] = s[t] * 0.5f + 1.0f;
#ifndef MENDED
        __syncthreads(); // fault: redundant-barrier
#endif
    }
    out[t] = s[t];
}
