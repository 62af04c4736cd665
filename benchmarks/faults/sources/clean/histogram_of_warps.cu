// A histogram of each warp, added up over the warps.
// run 2 64 random:128:u32 zeros:32:u32
extern "C" __global__ void __launch_bounds__(64) histogram_of_warps(const unsigned *in, unsigned *bins)
{
    __shared__ unsigned s[2][32];
    int t = threadIdx.x, warp = t / 32, lane = t % 32;
    s[warp][lane] = 0;
    __syncwarp();
    atomicAdd(&s[warp][in[blockIdx.x * 64 + t] % 32], 1);
    __syncthreads();
    if (t < 32)
        atomicAdd(&bins[t], s[0][t] + s[1][t]);
}
