// A barrier of all blocks, by a counter and fences.
// run 3 32 random:96:f32 zeros:96:f32 zeros:96:f32 zeros:1:u32
extern "C" __global__ void __launch_bounds__(32)
grid_barrier(const float *in, float *mid, float *out, unsigned *count)
{
    int i = blockIdx.x * 32 + threadIdx.x, last = gridDim.x * 32 - 1;
    mid[i] = in[i] * 2;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(count, 1);
        while (atomicAdd(count, 0) < gridDim.x)
            ;
        __threadfence();
    }
    __syncthreads();
    out[i] = mid[last - i];
}
