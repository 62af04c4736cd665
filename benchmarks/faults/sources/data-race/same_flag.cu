// All threads that find one say so in a shared word, while others already read it.
// run 1 64 random:64:f32 zeros:64:s32
extern "C" __global__ void __launch_bounds__(64) same_flag(const float *in, int *out)
{
    __shared__ int found;
    int t = threadIdx.x;
    if (t == 0)
        found = 0;
    __syncthreads();
    if (in[t] > 0.5f)
        found = 1; // fault: data-race
#ifdef MENDED
    __syncthreads();
#endif
    out[t] = found; // fault: data-race
}
