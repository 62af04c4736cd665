// Softmax of a row by a block: a largest, a sum, and what they divide.
// run 2 128 200 random:400:f32 zeros:400:f32
extern "C" __global__ void __launch_bounds__(128) softmax_rows(int n, const float *in, float *out)
{
    __shared__ float s[128];
    int t = threadIdx.x;
    const float *row = in + (size_t)blockIdx.x * n;
    float most = -1e30f, sum = 0;
    for (size_t i = t; i < n; i += 128)
        most = fmaxf(most, row[i]);
    s[t] = most;
    __syncthreads();
#pragma unroll 1
    for (int step = 64; step > 0; step >>= 1) {
        if (t < step)
            s[t] = fmaxf(s[t], s[t + step]);
        __syncthreads();
    }
    most = s[0];
    __syncthreads();
    for (size_t i = t; i < n; i += 128)
        sum += __expf(row[i] - most);
    s[t] = sum;
    __syncthreads();
#pragma unroll 1
    for (int step = 64; step > 0; step >>= 1) {
        if (t < step)
            s[t] += s[t + step];
        __syncthreads();
    }
    sum = s[0];
    for (size_t i = t; i < n; i += 128)
        out[(size_t)blockIdx.x * n + i] = __expf(row[i] - most) / sum;
}
