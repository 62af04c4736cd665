// A 64-bit atomic on every word of an array of 32-bit words.
// run 1 32 zeros:33:u32
extern "C" __global__ void __launch_bounds__(32) counter_of_eight(unsigned *words)
{
    int t = threadIdx.x;
#ifdef MENDED
    atomicAdd((unsigned long long *)(words + t / 2 * 2), 1ull);
#else
    atomicAdd((unsigned long long *)(words + t), 1ull); // fault: misaligned-access
#endif
}
