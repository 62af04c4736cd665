// Scans of warps, a scan of their sums, and both added.
// target sm_90
// run 2 256 random:512:s32 zeros:512:s32
__device__ __forceinline__ int scanned(int v, int lane)
{
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        int w = __shfl_up_sync(0xffffffff, v, d);
        if (lane >= d)
            v += w;
    }
    return v;
}

extern "C" __global__ void __block_size__((256, 1, 1)) block_scan(const int *in, int *out)
{
    __shared__ int sums[8];
    int t = threadIdx.x, i = blockIdx.x * 256 + t, lane = t % 32, warp = t / 32;
    int v = scanned(in[i], lane);
    if (lane == 31)
        sums[warp] = v;
    __syncthreads();
    if (warp == 0) {
        int w = scanned(lane < 8 ? sums[lane] : 0, lane);
        __syncwarp();
        if (lane < 8)
            sums[lane] = w;
    }
    __syncthreads();
    out[i] = warp ? v + sums[warp - 1] : v;
}
