// Neighbours change places in odd and in even turns.
// run 1 32 random:64:s32 zeros:64:s32
extern "C" __global__ void __launch_bounds__(32) odd_even_sort(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = in[t];
    s[t + 32] = in[t + 32];
#pragma unroll 1
    for (int turn = 0; turn < 64; turn++) {
        __syncthreads();
        int i = 2 * t + (turn & 1);
        if (i + 1 < 64 && s[i] > s[i + 1]) {
            int v = s[i];
            s[i] = s[i + 1];
            s[i + 1] = v;
        }
    }
    __syncthreads();
    out[t] = s[t];
    out[t + 32] = s[t + 32];
}
