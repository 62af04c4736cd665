// Two halves at once, from each half on.
// run 1 64 random:66:u16 zeros:64:u32
extern "C" __global__ void __launch_bounds__(64) halves_as_pairs(const unsigned short *in, unsigned *out)
{
    __shared__ __align__(4) unsigned short s[66];
    int t = threadIdx.x;
    s[t] = in[t];
    if (t < 2)
        s[64 + t] = in[64 + t];
    __syncthreads();
#ifdef MENDED
    out[t] = s[t] | s[t + 1] << 16;
#else
    out[t] = *(const unsigned *)(s + t); // fault: misaligned-access
#endif
}
