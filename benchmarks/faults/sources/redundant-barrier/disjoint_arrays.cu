// One array before the barrier, another one behind it.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) disjoint_arrays(const float *in, float *out)
{
    __shared__ float a[64], b[64];
    int t = threadIdx.x;
    float v = in[t];
    a[t] = v;
#ifndef MENDED
    __syncthreads(); // fault: redundant-barrier
#endif
    b[t] = v * v;
    __syncthreads();
    out[t] = a[63 - t] + b[t ^ 1];
}
