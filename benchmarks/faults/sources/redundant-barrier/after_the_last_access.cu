// A barrier behind the last use of shared memory.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) after_the_last_access(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
    float v = s[63 - t];
#ifndef MENDED
    __syncthreads(); // fault: redundant-barrier
#endif
    out[t] = v;
}
