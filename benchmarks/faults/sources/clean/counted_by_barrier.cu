// A barrier that counts.
// run 2 64 random:128:f32 zeros:2:s32
extern "C" __global__ void __launch_bounds__(64) counted_by_barrier(const float *in, int *out)
{
    int count = __syncthreads_count(in[blockIdx.x * 64 + threadIdx.x] > 0);
    if (threadIdx.x == 0)
        out[blockIdx.x] = count;
}
