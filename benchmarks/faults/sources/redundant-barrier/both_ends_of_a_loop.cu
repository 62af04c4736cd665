// A loop that begins and ends with a barrier: its turns are two barriers apart.
// run 1 64 4 random:256:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) both_ends_of_a_loop(int turns, const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    float sum = 0;
#pragma unroll 1
    for (int k = 0; k < turns; k++) {
#ifndef MENDED
        __syncthreads(); // fault: redundant-barrier
#endif
        s[t] = in[(size_t)k * 64 + t];
        __syncthreads();
        sum += s[63 - t];
        __syncthreads(); // fault: redundant-barrier
    }
    out[t] = sum;
}
