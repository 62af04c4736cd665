// A loop with a barrier, whose trips depend on the lane.
// run 1 32 random:32:f32 zeros:32:f32
extern "C" __global__ void __launch_bounds__(32) trips_of_the_lane(const float *in, float *out)
{
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncthreads(); // true: redundant-barrier
    float sum = 0;
#ifdef MENDED
    int trips = 5;
#else
    int trips = t % 4 + 2;
#endif
#pragma unroll 1
    for (int k = 0; k < trips; k++) {
        sum += s[(t + k) % 32];
        __syncthreads(); // fault: divergent-barrier
        s[t] = sum;
        __syncthreads(); // fault: divergent-barrier
    }
    out[t] = sum;
}
