// A key of bytes in local memory, read as words from any byte on.
// run 1 32 random:32:s32 random:512:u8 zeros:32:u32
extern "C" __global__ void __launch_bounds__(32) word_in_a_key(const int *start, const unsigned char *in, unsigned *out)
{
    __align__(4) unsigned char key[16];
    int t = threadIdx.x;
    for (int k = 0; k < 16; k++)
        key[k] = in[k * 32 + t];
    int at = start[t] & 7;
#ifdef MENDED
    out[t] = key[at] | key[at + 1] << 8 | key[at + 2] << 16 | key[at + 3] << 24;
#else
    out[t] = *(volatile unsigned *)(key + at); // fault: misaligned-access
#endif
}
