// One thread writes half of a word that its neighbour reads whole.
// run 1 64 random:64:u32 zeros:32:u32
extern "C" __global__ void __launch_bounds__(64) packed_halves(const unsigned *in, unsigned *out)
{
    __shared__ __align__(4) unsigned short halves[64];
    int t = threadIdx.x;
    halves[t] = (unsigned short)in[t]; // fault: data-race
#ifdef MENDED
    __syncthreads();
#endif
    if (t < 32)
        out[t] = ((unsigned *)halves)[t]; // fault: data-race
}
