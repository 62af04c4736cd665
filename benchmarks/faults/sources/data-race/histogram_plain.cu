// Threads count in shared memory without an atomic.
// run 1 64 random:64:u32 zeros:64:u32
extern "C" __global__ void __launch_bounds__(64) histogram_plain(const unsigned *in, unsigned *out)
{
    __shared__ unsigned bins[64];
    int t = threadIdx.x;
    bins[t] = 0;
    __syncthreads();
    unsigned bin = in[blockIdx.x * 64 + t] % 64;
#ifdef MENDED
    atomicAdd(&bins[bin], 1);
#else
    bins[bin]++; // fault: data-race
#endif
    __syncthreads();
    atomicAdd(&out[t], bins[t]);
}
