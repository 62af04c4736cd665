// A shared result that is written only where something was found.
// run 1 64 random:64:s32 zeros:64:s32
extern "C" __global__ void __launch_bounds__(64) found_or_not(const int *in, int *out)
{
    __shared__ int where;
    int t = threadIdx.x;
#ifdef MENDED
    if (t == 0)
        where = -1;
    __syncthreads();
#endif
    if (in[t] == 1000)
        atomicExch(&where, t);
    __syncthreads();
    out[t] = where; // fault: undefined-value
}
