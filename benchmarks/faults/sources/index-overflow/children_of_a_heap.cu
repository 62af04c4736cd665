// The children of node i are 2i + 1 and 2i + 2, and the guard asks after the product.
// run 2 64 200 random:200:f32 zeros:128:f32
// unseen: the launch that wraps is too large
extern "C" __global__ void __launch_bounds__(64) children_of_a_heap(int n, const float *in, float *out)
{
    int i = blockIdx.x * 64 + threadIdx.x;
#ifdef MENDED
    long long left = 2LL * i + 1;
#else
    int left = 2 * i + 1; // fault: index-overflow
#endif
    if (i < n && left + 1 < n)
        out[i] = fmaxf(in[left], in[left + 1]); // fault: index-overflow
}
