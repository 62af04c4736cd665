// Counters in a variable of the module, one for each of 128 threads, in blocks of 256.
// run 2 256 random:512:s32 zeros:1:s32
__device__ int counters[128];

extern "C" __global__ void __launch_bounds__(256) counters_of_the_module(const int *in, int *out)
{
    int t = threadIdx.x;
    if (in[blockIdx.x * 256 + t] > 50) {
#ifdef MENDED
        atomicAdd(&counters[t / 2], 1);
#else
        atomicAdd(&counters[t], 1); // fault: out-of-bounds
#endif
    }
}
