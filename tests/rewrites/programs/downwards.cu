// nvcc -arch=sm_80 -fmad=false -ptx downwards.cu
// The programs of benchmarks/programs/loads.py, each going the other way: from the last row, plane
// or column to the first, and from the last particle to the first. Names and arguments are the same.

#define THREAD (threadIdx.x + blockDim.x * blockIdx.x)

extern "C" __global__ void column_scale(int n, int rows, const float* b, float* a)
{
    int i = THREAD;
    if (i < n)
        for (int k = rows - 1; k >= 0; --k)
            a[i + k * n] *= b[i];
}

extern "C" __global__ void z_march(int nx, int ny, int nz, const float* in, float* out)
{
    int x = THREAD, y = threadIdx.y + blockDim.y * blockIdx.y;
    if (x >= nx || y >= ny)
        return;
    int plane = nx * ny;
    for (int z = nz - 2; z > 0; --z) {
        int i = (z * ny + y) * nx + x;
        out[i] = 0.5f * in[i] + 0.25f * (in[i - plane] + in[i + plane]);
    }
}

extern "C" __global__ void stencil7(
    int nx, int ny, int nz, float c0, float c1, const float* in, float* out)
{
    int x = 1 + THREAD, y = 1 + blockIdx.y;
    if (x >= nx - 1)
        return;
    for (int z = nz - 2; z > 0; --z) {
        const float* at = in + (x + nx * (y + ny * z));
        out[x + nx * (y + ny * z)] = c1 * (at[nx * ny] + at[-nx * ny] + at[nx] + at[-nx] + at[1]
            + at[-1]) - c0 * at[0];
    }
}

extern "C" __global__ void row_sums(int n, int columns, const float* a, const float* x, float* y)
{
    int i = THREAD;
    if (i < n)
        for (int j = columns - 1; j >= 0; --j)
            y[i] += a[i + j * n] * x[j];
}

struct Body {
    float v, x, y, z;
};

extern "C" __global__ void forces(
    int n, float scale, const Body* at, const Body* near, const float* charge, Body* force)
{
    int i = THREAD;
    if (i >= n)
        return;
    for (int j = 99; j >= 0; --j) {
        float r = at[i].v + near[j].v
            - (at[i].x * near[j].x + at[i].y * near[j].y + at[i].z * near[j].z);
        float f = 2.0f * __expf(-(scale * r));
        force[i].v += charge[j] * f;
        force[i].x += charge[j] * (f * (at[i].x - near[j].x));
        force[i].y += charge[j] * (f * (at[i].y - near[j].y));
        force[i].z += charge[j] * (f * (at[i].z - near[j].z));
    }
}

extern "C" __global__ void gather(int n, const int* at, const float* x, float* sum)
{
    int i = THREAD;
    if (i < n)
        for (int k = 7; k >= 0; --k)
            sum[i] += x[at[i + k * n]];
}

extern "C" __global__ void fdtd2d(int nx, int ny, const float* ex, const float* ey, float* hz)
{
    int x = THREAD;
    if (x >= nx - 1)
        return;
    for (int y = ny - 2; y >= 0; --y)
        hz[x + nx * y] -= 0.7f * (ex[x + 1 + nx * y] - ex[x + nx * y] + ey[x + nx * (y + 1)]
            - ey[x + nx * y]);
}

extern "C" __global__ void thomas(
    int n, int rows, const float* lower, const float* upper, float* diagonal, float* right)
{
    int i = THREAD;
    if (i >= n)
        return;
    for (int k = rows - 2; k >= 0; --k) {
        float w = upper[i + k * n] / diagonal[i + (k + 1) * n];
        diagonal[i + k * n] -= w * lower[i + (k + 1) * n];
        right[i + k * n] -= w * right[i + (k + 1) * n];
    }
    right[i] /= diagonal[i];
    for (int k = 1; k < rows; ++k)
        right[i + k * n] = (right[i + k * n] - lower[i + k * n] * right[i + (k - 1) * n])
            / diagonal[i + k * n];
}

extern "C" __global__ void jacobi(int nx, int ny, float c, const float* in, float* out)
{
    int x = 1 + THREAD;
    if (x >= nx - 1)
        return;
    for (int y = ny - 2; y > 0; --y)
        out[x + nx * y] = c * (in[x + nx * (y - 1)] + in[x + nx * (y + 1)] + in[x + 1 + nx * y]
            + in[x - 1 + nx * y]);
}

extern "C" __global__ void jagged(int n, int most, const int* length, const float* a, float* sum)
{
    int i = THREAD;
    if (i < n)
        for (int k = min(length[i], most) - 1; k >= 0; --k)
            sum[i] += a[i + k * n];
}
