// Atomics on one word need no order among themselves.
// run 2 64 random:128:s32 zeros:1:s32
extern "C" __global__ void __launch_bounds__(64) around_atomics(const int *in, int *sum)
{
    int v = in[blockIdx.x * 64 + threadIdx.x];
    if (v > 20)
        atomicAdd(sum, v);
#ifndef MENDED
    __syncthreads(); // fault: redundant-barrier
#endif
    if (v < 10)
        atomicAdd(sum, 1);
}
