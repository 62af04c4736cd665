// Two buffers, and both steps use the same one.
// run 1 64 6 random:384:f32 zeros:384:f32
extern "C" __global__ void __launch_bounds__(64) double_buffer_parity(int steps, const float *in, float *out)
{
    __shared__ float buffer[2][64];
    int t = threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < steps; k++) {
#ifdef MENDED
        int at = k & 1;
#else
        int at = (k & 2) >> 1;
#endif
        buffer[at][t] = in[(size_t)k * 64 + t]; // fault: data-race
        __syncthreads();
        out[(size_t)k * 64 + t] = buffer[at][t ^ 33]; // fault: data-race
    }
}
