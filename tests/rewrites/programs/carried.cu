// nvcc -arch=sm_75 -ptx carried.cu
// Loops that load or store the same bytes again in every iteration.

extern "C" __global__ void z_march(const float *in, float *out, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx || y >= ny) return;
    for (int k = 1; k < nz - 1; k++) {
        int i = (k * ny + y) * nx + x;
        out[i] = 0.5f * in[i] + 0.25f * (in[i - nx * ny] + in[i + nx * ny]);
    }
}

template <typename T> __device__ void sums(const T *in, T *out, int n, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int k = 0; k < rows; k++) out[i] += in[k * n + i] * in[k];
}

#define SUMS(name, type) \
    extern "C" __global__ void name(const type *in, type *out, int n, int rows) { \
        sums(in, out, n, rows); \
    }
SUMS(float_sums, float)
SUMS(double_sums, double)
SUMS(byte_sums, unsigned char)
SUMS(short_sums, short)
SUMS(long_sums, long long)

// A row from its end to its begin, three neighbours at a time.
extern "C" __global__ void downwards(const double *in, double *out, int n) {
    const double *a = in + (long long)threadIdx.x * n;
    double *b = out + (long long)threadIdx.x * n;
#pragma unroll 1
    for (int k = n - 2; k > 0; k--) b[k] = a[k - 1] + 2 * a[k] + a[k + 1];
}

struct Body { float v, x, y, z; };

extern "C" __global__ void forces(const Body *in, Body *out, int n, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int j = 0; j < count; j++) {
        float r = in[i].v + in[j].v - (in[i].x * in[j].x + in[i].y * in[j].y + in[i].z * in[j].z);
        float v = __expf(-r) * in[j].v;
        out[i].v += v;
        out[i].x += v * (in[i].x - in[j].x);
        out[i].y += v * (in[i].y - in[j].y);
        out[i].z += v * (in[i].z - in[j].z);
    }
}

// Each thread has a word of shared memory, which it adds to, and leaves early.
extern "C" __global__ void in_shared(const int *in, int *out, int n, int rows) {
    __shared__ int sum[64];
    int t = threadIdx.x;
    sum[t] = 0;
#pragma unroll 1
    for (int k = 0; k < rows; k++) {
        int a = in[k * n + t];
        sum[t] += a;
        if (a > t) break;
    }
    out[t] = sum[t];
}

extern "C" __global__ void two_sums(const float *in, float *out, int n, int rows) {
    int i = threadIdx.x;
#pragma unroll 1
    for (int k = 0; k < rows; k++) {
        out[i] += in[k];
        out[n] += in[k + 1];
    }
}
