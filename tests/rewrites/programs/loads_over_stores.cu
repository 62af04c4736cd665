// Loads that no compiler may move over the stores beside them, since nobody said `__restrict__`.
// nvcc 13.0: nvcc -arch=sm_80 -ptx

extern "C" __global__ void column_scale(float *a, const float *b, int n, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    for (int k = 0; k < m; k++) a[i + k * n] *= b[i];
}

extern "C" __global__ void three_outputs(const float *x, const float *y, float *p, float *q,
                                         float *r, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  p[i] += x[i] * y[i];
  q[i] += x[i] - y[i];
  r[i] += x[i] + 2.0f * y[i];
}

extern "C" __global__ void z_march(float *out, const float *in, int nx, int ny, int nz) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= nx || y >= ny) return;
  int plane = nx * ny, at = y * nx + x;
  for (int z = 1; z < nz - 1; z++) {
    int c = at + z * plane;
    out[c] = 0.25f * in[c - plane] + 0.5f * in[c] + 0.25f * in[c + plane];
  }
}

extern "C" __global__ void spread(unsigned char *out, const unsigned char *in, int n, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
#pragma unroll 1
    for (int k = 0; k < m; k++) out[i + k * n] = in[i] + k;
}

extern "C" __global__ void backwards(double *out, const double *in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (int k = n - 1; k >= 0; k--) out[k + i * n] = in[i] - out[k + i * n];
}

extern "C" __global__ void gather(float *out, const float *x, const int *at, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
#pragma unroll 1
    for (int k = 0; k < 8; k++) out[i] += x[at[i]];
}

extern "C" __global__ void stride(float *y, const float *x, const float *s, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    y[i] += s[0] * x[i];
}

extern "C" __global__ void product(float *y, const float *A, const float *x, int n, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = 0;
  for (int j = 0; j < m; j++) y[i] += A[i * m + j] * x[j];
}
