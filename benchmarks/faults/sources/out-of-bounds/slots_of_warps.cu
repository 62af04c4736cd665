// A slot for each warp, and more warps than slots.
// run 1 1024 random:1024:s32 zeros:1:s32
extern "C" __global__ void __launch_bounds__(1024) slots_of_warps(const int *in, int *out)
{
#ifdef MENDED
    __shared__ int slot[32];
#else
    __shared__ int slot[16];
#endif
    int t = threadIdx.x;
    int any = __any_sync(0xffffffff, in[t] == 5);
    if (t % 32 == 0)
        slot[t / 32] = any; // fault: out-of-bounds
    __syncthreads();
    if (t < 16)
        atomicAdd(out, slot[t] + slot[t ^ 1]);
}
