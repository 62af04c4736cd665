// A convolution whose taps are constants of the module.
// run 2 64 120 random:128:f32 zeros:120:f32
__constant__ float taps[9];

extern "C" __global__ void __launch_bounds__(64) convolution_constant(int n, const float *in, float *out)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n)
        return;
    float sum = 0;
#pragma unroll 1
    for (int k = 0; k < 9; k++)
        sum += taps[k] * in[(size_t)i + k];
    out[i] = sum;
}
