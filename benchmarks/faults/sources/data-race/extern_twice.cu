// Two arrays of dynamic shared memory begin at the same byte.
// run 1 64 shared=512 random:64:f32 zeros:64:f32
extern __shared__ float values[];
extern __shared__ float weights[];

extern "C" __global__ void __launch_bounds__(64) extern_twice(const float *in, float *out)
{
    int t = threadIdx.x;
#ifdef MENDED
    float *second = weights + 64;
#else
    float *second = weights;
#endif
    values[t] = in[t]; // fault: data-race
    second[63 - t] = 2 * in[t]; // fault: data-race
    __syncthreads();
    out[t] = values[t] + second[t];
}
