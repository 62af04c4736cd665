// The last levels of a tree by one warp, with barriers of the warp.
// target sm_90
// run 2 64 random:256:s32 zeros:2:s32
extern "C" __global__ void __block_size__((64, 1, 1)) warp_tree_in_shared(const int *in, int *out)
{
    __shared__ int s[64];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    s[t] = in[i] + in[i + 64];
    __syncthreads();
    if (t < 32) {
        int v = s[t] + s[t + 32];
#pragma unroll
        for (int step = 16; step > 0; step >>= 1) {
            s[t] = v;
            __syncwarp();
            v += s[t ^ step];
            __syncwarp();
        }
        if (t == 0)
            out[blockIdx.x] = v;
    }
}
