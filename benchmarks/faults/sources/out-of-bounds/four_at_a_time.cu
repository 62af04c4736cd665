// Rows of 60 that are read 4 at a time by 16 threads: the last row ends too soon.
// run 1 64 random:240:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) four_at_a_time(const float *in, float *out)
{
    __shared__ __align__(16) float rows[4 * 60];
    int t = threadIdx.x;
    for (int k = t; k < 240; k += 64)
        rows[k] = in[k];
    __syncthreads();
#ifdef MENDED
    if (t % 16 == 15)
        return;
#endif
    float4 v = *(float4 *)&rows[t / 16 * 60 + t % 16 * 4]; // fault: out-of-bounds
    out[t] = v.x + v.y + v.z + v.w;
}
