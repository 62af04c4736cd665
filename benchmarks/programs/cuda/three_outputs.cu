// Three sums of the same two inputs: each store lies between two loads of the same bytes.
extern "C" __global__ void three_outputs(
    int n, const float* x, const float* y, float* p, float* q, float* r)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    p[i] = x[i] * y[i];
    q[i] = x[i] - y[i];
    r[i] = x[i] + 2.0f * y[i];
}
