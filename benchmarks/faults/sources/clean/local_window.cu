// A window of eight values in local memory, sorted by insertion.
// run 1 32 random:256:s32 zeros:32:s32
extern "C" __global__ void __launch_bounds__(32) local_window(const int *in, int *out)
{
    int window[8], t = threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < 8; k++) {
        int v = in[k * 32 + t], at = k;
#pragma unroll 1
        while (at > 0 && window[at - 1] > v) {
            window[at] = window[at - 1];
            at--;
        }
        window[at] = v;
    }
    out[t] = window[3];
}
