// A histogram by atomics on shared memory, added up at the end.
// run 2 64 300 random:300:u8 zeros:256:u32
extern "C" __global__ void __launch_bounds__(64)
histogram_shared(int n, const unsigned char *in, unsigned *bins)
{
    __shared__ unsigned s[256];
    int t = threadIdx.x;
    for (int k = t; k < 256; k += 64)
        s[k] = 0;
    __syncthreads();
    for (size_t i = blockIdx.x * 64 + t; i < n; i += (size_t)gridDim.x * 64)
        atomicAdd(&s[in[i]], 1);
    __syncthreads();
    for (int k = t; k < 256; k += 64)
        atomicAdd(&bins[k], s[k]);
}
