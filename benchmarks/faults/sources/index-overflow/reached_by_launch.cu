// A launch whose last block has indices beyond 2^31.
// launch {"grid": [16777217, 1, 1], "block": [1, 1, 1], "args": [2147483776, 2199023255552, "zeros:16777217:u8"], "only": [16777216, 16777217], "memory": {"0x20080000000": "random:64:u8:1"}}
extern "C" __global__ void __launch_bounds__(1) reached_by_launch(long long n, const char *in, char *out)
{
#ifdef MENDED
    long long i = (long long)blockIdx.x * 128;
#else
    int i = blockIdx.x * 128; // fault: index-overflow
#endif
    if (i < n)
        out[blockIdx.x] = in[i]; // fault: index-overflow
}
