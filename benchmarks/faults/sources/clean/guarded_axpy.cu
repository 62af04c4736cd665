// An early return beyond the end.
// run 2 64 100 2.5 random:100:f32 random:100:f32:1
extern "C" __global__ void __launch_bounds__(64) guarded_axpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n)
        return;
    y[i] = a * x[i] + y[i];
}
