// Records of 6 bytes, whose word of 4 bytes comes first.
// run 1 64 random:384:u8 zeros:64:u32
extern "C" __global__ void __launch_bounds__(64) word_in_bytes(const unsigned char *in, unsigned *out)
{
    int t = threadIdx.x;
#ifdef MENDED
    const unsigned short *two = (const unsigned short *)(in + 6 * t);
    out[t] = two[0] | two[1] << 16;
#else
    out[t] = *(const unsigned *)(in + 6 * t); // fault: misaligned-access
#endif
}
