// Five points of a plane, marching along z.
extern "C" __global__ void stencil(const float* __restrict__ in, float* __restrict__ out, int nx, int ny, int nz) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y + 1;
  if (x >= nx - 1) return;
  for (int z = 0; z < nz; ++z) {
    long i = ((long)z * ny + y) * nx + x;
    out[i] = 0.5f * in[i] + 0.125f * (in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx]);
  }
}
