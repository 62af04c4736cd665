// A histogram in shared memory that nobody clears.
// run 1 64 random:64:s32 zeros:64:s32
extern "C" __global__ void __launch_bounds__(64) bins_not_cleared(const int *in, int *out)
{
    __shared__ int bins[64];
    int t = threadIdx.x;
#ifdef MENDED
    bins[t] = 0;
    __syncthreads();
#endif
    atomicAdd(&bins[in[t] & 63], 1); // fault: undefined-value
    __syncthreads();
    out[t] = bins[t]; // fault: undefined-value
}
