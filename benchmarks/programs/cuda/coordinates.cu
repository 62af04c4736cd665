// A flat index of 64 bits taken apart by parameters: the axes of an array in the opposite order.
extern "C" __global__ void coordinates(long nx, long ny, long nz, const float *in, float *out) {
  long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= nx * ny * nz) return;
  long x = i % nx, row = i / nx, y = row % ny, z = row / ny;
  out[(x * ny + y) * nz + z] = in[i];
}
