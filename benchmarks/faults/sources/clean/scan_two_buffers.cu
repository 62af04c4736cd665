// A scan of a block with two buffers in turn.
// run 2 128 random:256:f32 zeros:256:f32
extern "C" __global__ void __launch_bounds__(128) scan_two_buffers(const float *in, float *out)
{
    __shared__ float s[2][128];
    int t = threadIdx.x, at = 0;
    s[0][t] = in[blockIdx.x * 128 + t];
    __syncthreads();
#pragma unroll 1
    for (int d = 1; d < 128; d *= 2) {
        float v = s[at][t];
        if (t >= d)
            v += s[at][t - d];
        at ^= 1;
        s[at][t] = v;
        __syncthreads();
    }
    out[blockIdx.x * 128 + t] = s[at][t];
}
