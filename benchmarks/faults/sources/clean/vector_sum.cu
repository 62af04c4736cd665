// A sum of two vectors under a guard.
// run 2 64 100 random:100:f32 random:100:f32:1 zeros:100:f32
extern "C" __global__ void vector_sum(int n, const float *a, const float *b, float *c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}
