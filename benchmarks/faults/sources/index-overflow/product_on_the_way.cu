// Three quarters of an index, by a product that is four times as large.
// run 2 64 100 random:100:f32 zeros:100:f32
// unseen: the launch that wraps is too large
extern "C" __global__ void __launch_bounds__(64) product_on_the_way(int n, const float *in, float *out)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) {
#ifdef MENDED
        int from = (int)((long long)i * 3 / 4);
#else
        int from = i * 3 / 4; // fault: index-overflow
#endif
        out[i] = in[from]; // fault: index-overflow
    }
}
