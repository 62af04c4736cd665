// A table of constants of 24 values for 32 lanes.
// run 1 32 random:32:f32 zeros:32:f32
__constant__ float table[24];

extern "C" __global__ void __launch_bounds__(32) table_too_short(const float *in, float *out)
{
    int t = threadIdx.x;
#ifdef MENDED
    out[t] = in[t] * table[t % 24];
#else
    out[t] = in[t] * table[t]; // fault: out-of-bounds
#endif
}
