// One block writes, fences and raises a flag; the others wait, fence and read.
// run 3 32 random:32:f32 zeros:32:f32 zeros:1:s32 zeros:96:f32
extern "C" __global__ void __launch_bounds__(32)
flag_between_blocks(const float *in, float *data, volatile int *flag, float *out)
{
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = in[t] * 2;
        __syncthreads();
        if (t == 0) {
            __threadfence();
            *flag = 1;
        }
    } else {
        if (t == 0) {
            while (*flag == 0)
                ;
            __threadfence();
        }
        __syncthreads();
        out[blockIdx.x * 32 + t] = data[31 - t];
    }
}
