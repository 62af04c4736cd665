// Each warp finds the least of its range, and the first thread combines them at once.
// run 2 128 random:256:f32 zeros:2:f32
extern "C" __global__ void __launch_bounds__(128) warp_ranges(const float *in, float *out)
{
    __shared__ float least[4];
    int t = threadIdx.x;
    float v = in[blockIdx.x * 128 + t];
    for (int d = 16; d > 0; d >>= 1)
        v = fminf(v, __shfl_xor_sync(0xffffffff, v, d));
    if (t % 32 == 0)
        least[t / 32] = v; // fault: data-race
#ifdef MENDED
    __syncthreads();
#else
    __syncwarp();
#endif
    if (t == 0)
        out[blockIdx.x] = fminf(fminf(least[0], least[1]), fminf(least[2], least[3])); // fault: data-race
}
