#include <cuda_pipeline.h>
// Two stages of asynchronous copies; a copy is not there before its group is waited for.
extern "C" __global__ void staged(const int4 *in, int *out, int rounds, int early) {
    __shared__ int4 box[2][32];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&box[0][t], &in[t], 16);
    __pipeline_commit();
    int sum = 0;
    for (int r = 0; r < rounds; r++) {
        if (r + 1 < rounds) __pipeline_memcpy_async(&box[(r + 1) & 1][t], &in[32 * (r + 1) + t], 16, r == 0 ? 8 : 0);
        __pipeline_commit();
        if (!early) __pipeline_wait_prior(1);
        __syncthreads();
        int4 v = box[r & 1][31 - t];
        sum += v.x + 3 * v.y + 5 * v.z + 7 * v.w;
        __syncthreads();
    }
    out[t] = sum;
}
