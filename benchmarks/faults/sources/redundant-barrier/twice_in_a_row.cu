// Two barriers, one after another.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) twice_in_a_row(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncthreads(); // fault: redundant-barrier
#ifndef MENDED
    __syncthreads(); // fault: redundant-barrier
#endif
    out[t] = s[63 - t];
}
