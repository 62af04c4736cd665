// Four floats at once from an index that each thread raises by one.
// run 1 64 random:68:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) quad_of_any_index(const float *in, float *out)
{
    int t = threadIdx.x;
#ifdef MENDED
    float4 v = make_float4(in[t], in[t + 1], in[t + 2], in[t + 3]);
#else
    float4 v = *(const float4 *)(in + t); // fault: misaligned-access
#endif
    out[t] = v.x + v.y + v.z + v.w;
}
