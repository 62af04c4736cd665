// A loop over the grid with a barrier in it: the last turn is for some lanes only.
// run 2 64 200 random:200:f32 zeros:4:f32
extern "C" __global__ void __launch_bounds__(64) stride_loop(int n, const float *in, float *out)
{
    __shared__ float s[64];
    int t = threadIdx.x;
    float total = 0;
#ifdef MENDED
#pragma unroll 1
    for (int first = blockIdx.x * 64; first < n; first += gridDim.x * 64) {
        int i = first + t;
        s[t] = i < n ? in[i] : 0.0f; // true: index-overflow
#else
#pragma unroll 1
    for (int i = blockIdx.x * 64 + t; i < n; i += gridDim.x * 64) {
        s[t] = in[i]; // true: index-overflow
#endif
        __syncthreads(); // fault: divergent-barrier
        total += s[t] + s[t ^ 1];
        __syncthreads(); // fault: divergent-barrier
    }
    atomicAdd(&out[blockIdx.x], total);
}
