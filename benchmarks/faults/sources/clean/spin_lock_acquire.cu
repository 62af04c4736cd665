// A lock whose accesses acquire and release.
// run 3 64 zeros:1:s32 zeros:64:s32
// target sm_75
extern "C" __global__ void __launch_bounds__(64) spin_lock_acquire(int *lock, int *sums)
{
    int t = threadIdx.x;
    if (t == 0) {
        int old;
        do
            asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(lock) : "memory");
        while (old != 0);
    }
    __syncthreads();
    sums[t] += blockIdx.x;
    __syncthreads();
    if (t == 0)
        asm volatile("st.release.gpu.global.u32 [%0], 0;" :: "l"(lock) : "memory");
}
