// Each warp fills and reads a row of its own: a barrier of the warp is enough.
// run 1 64 random:64:f32 zeros:64:f32
extern "C" __global__ void __launch_bounds__(64) warp_owns_its_row(const float *in, float *out)
{
    __shared__ float s[2][32];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    s[warp][lane] = in[t];
    __syncwarp();
#ifndef MENDED
    __syncthreads(); // fault: redundant-barrier
#endif
    out[t] = s[warp][31 - lane];
}
