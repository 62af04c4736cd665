// A window in local memory of which three of four values are set.
// run 1 32 random:32:s32 random:96:f32 zeros:32:f32
extern "C" __global__ void __launch_bounds__(32) window_half_full(const int *which, const float *in, float *out)
{
    float window[4];
    int t = threadIdx.x;
#ifdef MENDED
    window[3] = 0;
#endif
    for (int k = 0; k < 3; k++)
        window[k] = in[k * 32 + t];
    out[t] = ((volatile float *)window)[which[t] & 3]; // fault: undefined-value
}
