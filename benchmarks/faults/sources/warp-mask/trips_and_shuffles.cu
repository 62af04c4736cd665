// Lanes leave the loop in different turns, and the shuffle in it names all.
// run 1 32 random:32:s32 zeros:32:s32
extern "C" __global__ void __launch_bounds__(32) trips_and_shuffles(const int *in, int *out)
{
    int t = threadIdx.x, v = in[t], sum = 0;
#ifdef MENDED
#pragma unroll 1
    for (int k = 0; __any_sync(0xffffffff, k < v); k++) {
        int w = __shfl_xor_sync(0xffffffff, v, 1);
        if (k < v)
            sum += w;
    }
#else
#pragma unroll 1
    for (int k = 0; k < v; k++)
        sum += __shfl_xor_sync(0xffffffff, v, 1); // fault: warp-mask
#endif
    out[t] = sum;
}
