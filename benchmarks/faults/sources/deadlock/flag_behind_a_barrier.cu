// Thread 0 waits for a flag that thread 32 sets after the barrier to which thread 0 never comes.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) flag_behind_a_barrier(const float *in, float *out)
{
    __shared__ volatile int ready;
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t == 0)
        ready = 0;
    s[t] = in[t];
    __syncthreads();
#ifdef MENDED
    if (t == 32)
        ready = 1;
#endif
    if (t == 0)
        while (ready == 0) // fault: deadlock
            ;
    __syncthreads(); // fault: deadlock
#ifndef MENDED
    if (t == 32)
        ready = 1;
#endif
    out[t] = s[63 - t];
}
