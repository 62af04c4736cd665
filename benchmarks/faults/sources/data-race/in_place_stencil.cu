// A stencil that writes the array it reads.
// run 2 64 130 random:130:f32 zeros:130:f32
extern "C" __global__ void __launch_bounds__(64) in_place_stencil(int n, float *a, float *b)
{
    int i = blockIdx.x * 64 + threadIdx.x + 1;
    if (i < n - 1) {
#ifdef MENDED
        b[i] = 0.5f * a[i - 1] + 0.5f * a[i + 1];
#else
        a[i] = 0.5f * a[i - 1] + 0.5f * a[i + 1]; // fault: data-race
#endif
    }
}
