// All threads read a value, and one overwrites it while they may still be reading.
// run 1 64 random:256:f32 zeros:256:f32
extern "C" __global__ void __launch_bounds__(64) broadcast_overwritten(const float *in, float *out)
{
    __shared__ float pivot;
    int t = threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < 4; k++) {
        if (t == 0)
            pivot = in[k * 64]; // fault: data-race
        __syncthreads();
        out[k * 64 + t] = in[k * 64 + t] * pivot; // fault: data-race
#ifdef MENDED
        __syncthreads();
#endif
    }
}
