// Sums in dynamic shared memory that start from whatever is there.
// run 1 64 shared=256 4 random:256:f32 zeros:64:f32
extern __shared__ float sums[];

extern "C" __global__ void __launch_bounds__(64) sums_of_dynamic(int rows, const float *in, float *out)
{
    int t = threadIdx.x;
#ifdef MENDED
    sums[t] = 0;
#endif
#pragma unroll 1
    for (int k = 0; k < rows; k++)
        sums[t] += in[(size_t)k * 64 + t]; // fault: undefined-value
    __syncthreads();
    out[t] = sums[63 - t]; // fault: undefined-value
}
