// Running sums of 8 neighbouring elements, which one thread loads and stores.
extern "C" __global__ void chunks(int n, const float* in, float* out)
{
    int i = 8 * (threadIdx.x + blockDim.x * blockIdx.x);
    if (i + 8 > n)
        return;
    float x[8];
#pragma unroll
    for (int k = 0; k < 8; ++k)
        x[k] = in[i + k];
#pragma unroll
    for (int k = 1; k < 8; ++k)
        x[k] += x[k - 1];
#pragma unroll
    for (int k = 0; k < 8; ++k)
        out[i + k] = x[k];
}
