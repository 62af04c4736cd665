// Nine neighbours in a plane, whose indices are unsigned. Each thread walks down a column.
extern "C" __global__ void box(unsigned width, unsigned height, const float *in, float *out) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x + 1;
    if (x + 1 >= width) return;
#ifdef ROLLED
#pragma unroll 1
#endif
    for (unsigned y = 1; y + 1 < height; y++) {
        unsigned i = y * width + x, above = i - width, below = i + width;
        out[i] = in[above - 1] + in[above] + in[above + 1] + in[i - 1] + in[i] + in[i + 1] +
                 in[below - 1] + in[below] + in[below + 1];
    }
}
