// A function for rows of either space: the compiler leaves its accesses generic.
__device__ __noinline__ void add_scaled(float *to, const float *from, const float *scale) {
    for (int i = 0; i < WIDTH; ++i)
        to[i] += scale[i & 1] * from[i];
}

extern "C" __global__ void called(const float *in, float *out) {
    __shared__ float rows[THREADS][WIDTH];
    float *row = rows[threadIdx.x];
    for (int i = 0; i < WIDTH; ++i)
        row[i] = 1;
    const int mine = (blockIdx.x * THREADS + threadIdx.x) * WIDTH;
    add_scaled(row, in + mine, in);
    add_scaled(out + mine, row, in + 2);
}
