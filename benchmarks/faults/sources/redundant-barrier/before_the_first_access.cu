// A barrier before anything was shared.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) before_the_first_access(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    float v = in[t];
#ifndef MENDED
    __syncthreads(); // fault: redundant-barrier
#endif
    s[t] = v;
    __syncthreads();
    out[t] = s[63 - t];
}
