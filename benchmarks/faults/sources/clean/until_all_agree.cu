// Turns until no thread of the block has changed anything.
// run 1 64 random:64:s32 zeros:64:s32
extern "C" __global__ void __launch_bounds__(64) until_all_agree(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x, v = in[t], changed;
    s[t] = v;
    __syncthreads();
    do {
        int w = s[t > 0 ? t - 1 : 0];
        changed = __syncthreads_or(w > v);
        if (w > v) {
            v = w;
            s[t] = v;
        }
        __syncthreads();
    } while (changed);
    out[t] = v;
}
