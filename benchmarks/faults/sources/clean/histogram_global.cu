// A histogram by atomics on global memory.
// run 2 64 120 random:120:u32 zeros:64:u32
extern "C" __global__ void __launch_bounds__(64) histogram_global(int n, const unsigned *in, unsigned *bins)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n)
        atomicAdd(&bins[in[i] & 63], 1);
}
