// A shuffle between a write and the read of a neighbour: it moves values, and orders no memory.
// run 1 32 random:32:f32 zeros:32:f32
extern "C" __global__ void __launch_bounds__(32) shuffle_orders_nothing(const float *in, float *out)
{
    __shared__ float s[32];
    int t = threadIdx.x;
    float v = in[t];
    s[t] = v; // fault: data-race
    float w = __shfl_xor_sync(0xffffffff, v, 1);
#ifdef MENDED
    __syncwarp();
#endif
    out[t] = w + s[31 - t]; // fault: data-race
}
