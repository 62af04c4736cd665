// The second half of a condition votes by a barrier, and lanes decide by the first half.
// run 1 64 random:64:s32 zeros:64:s32
extern "C" __global__ void __launch_bounds__(64) short_circuit(const int *in, int *out)
{
    int t = threadIdx.x, v = in[t];
#ifdef MENDED
    int any = __syncthreads_or(v == 7);
    if (v > 20 && any)
        v = 0;
#else
    if (v > 20 && __syncthreads_or(v == 7)) // fault: divergent-barrier
        v = 0;
#endif
    out[t] = v;
}
