// an index of 64 bits, split into three coordinates; nvcc asks for each division whether it is short
extern "C" __global__ void split(const float *a, float *b, int nx, int ny, int nz, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {
    long long x = i % nx, y = i / nx % ny, z = i / ((long long)nx * ny);
    b[i] = a[(x * ny + y) * nz + z];
  }
}
