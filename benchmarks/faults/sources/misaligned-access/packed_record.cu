// A packed record in shared memory: a byte, then a float.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) packed_record(const float *in, float *out)
{
#ifdef MENDED
    const int size = 8, at = 4;
#else
    const int size = 5, at = 1;
#endif
    __shared__ __align__(8) char records[64 * 8];
    int t = threadIdx.x;
    records[t * size] = (char)t;
    *(float *)(records + t * size + at) = in[t]; // fault: misaligned-access
    __syncthreads();
    out[records[(63 - t) * size]] = *(float *)(records + (63 - t) * size + at);
}
