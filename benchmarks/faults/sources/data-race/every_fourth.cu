// A ring of four slots, with a barrier in every fourth step only.
// run 1 64 12 random:768:f32 zeros:768:f32
extern "C" __global__ void __launch_bounds__(64) every_fourth(int steps, const float *in, float *out)
{
    __shared__ float ring[4][64];
    int t = threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < steps; k++) {
        ring[k % 4][t] = in[(size_t)k * 64 + t]; // fault: data-race
#ifdef MENDED
        __syncthreads();
#else
        if (k % 4 == 3)
            __syncthreads();
#endif
        out[(size_t)k * 64 + t] = ring[k % 4][63 - t]; // fault: data-race
    }
}
