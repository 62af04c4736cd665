// Compiled with -lineinfo: places are those of this file.
//
// Each turn reads what another thread wrote in it, and nothing keeps the next
// turn from writing too early.
//
//
extern "C" __global__ void turns(float *out, const float *in, int steps)
{
    __shared__ float s[64];
    int t = threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < steps; k++) {
        s[t] = in[k * 64 + t];
        __syncthreads();
        out[k * 64 + t] = s[t ^ 33];
    }
}
