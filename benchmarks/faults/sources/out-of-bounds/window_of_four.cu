// A window in local memory of four values, whose index runs to seven.
// run 1 32 random:32:s32 random:128:f32 zeros:32:f32
extern "C" __global__ void __launch_bounds__(32) window_of_four(const int *which, const float *in, float *out)
{
    float window[4];
    int t = threadIdx.x;
    for (int k = 0; k < 4; k++)
        window[k] = in[k * 32 + t];
#ifdef MENDED
    out[t] = window[which[t] & 3];
#else
    out[t] = window[which[t] & 7]; // fault: out-of-bounds
#endif
}
