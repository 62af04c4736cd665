// A scan by an upward and a downward tree, two elements a thread.
// run 2 64 random:256:s32 zeros:256:s32
extern "C" __global__ void __launch_bounds__(64) scan_up_and_down(const int *in, int *out)
{
    __shared__ int s[128];
    int t = threadIdx.x, first = blockIdx.x * 128, offset = 1;
    s[2 * t] = in[first + 2 * t];
    s[2 * t + 1] = in[first + 2 * t + 1];
#pragma unroll 1
    for (int d = 64; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d)
            s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0)
        s[127] = 0;
#pragma unroll 1
    for (int d = 1; d < 128; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
            int v = s[left];
            s[left] = s[right];
            s[right] += v;
        }
    }
    __syncthreads();
    out[first + t] = s[t];
    out[first + 64 + t] = s[64 + t];
}
