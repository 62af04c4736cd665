// The number of the barrier depends on the lane, so a warp comes to two barriers at once.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) number_of_the_lane(const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = in[t];
#ifdef MENDED
    int number = 1 + t / 32;
    int other = t ^ 1;
#else
    int number = 1 + t % 2;
    int other = t;
#endif
    asm volatile("bar.sync %0, 32;" :: "r"(number) : "memory"); // fault: divergent-barrier
    out[t] = s[other];
}
