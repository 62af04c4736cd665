// A loop clears one element too many.
// run 1 32 random:32:s32 zeros:100:s32
extern "C" __global__ void __launch_bounds__(32) up_to_and_with(const int *in, int *out)
{
    __shared__ int bins[100];
    int t = threadIdx.x;
#ifdef MENDED
#pragma unroll 1
    for (int k = t; k < 100; k += 32)
#else
#pragma unroll 1
    for (int k = t; k <= 100; k += 32)
#endif
        bins[k] = 0; // fault: out-of-bounds
    __syncthreads();
    atomicAdd(&bins[in[t] & 63], 1);
    __syncthreads();
#pragma unroll 1
    for (int k = t; k < 100; k += 32)
        out[k] = bins[k];
}
