// 27 points of a cube around each one, without a loop.
// INDEX is the type of sizes and indices.
extern "C" __global__ void stencil27(INDEX nx, INDEX ny, INDEX nz, const float *__restrict__ in,
                                     float *__restrict__ out) {
  INDEX x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y + 1, z = blockIdx.z + 1;
  if (x >= nx - 1) return;
  float sum = 0;
#pragma unroll
  for (int k = -1; k <= 1; ++k)
#pragma unroll
    for (int j = -1; j <= 1; ++j)
#pragma unroll
      for (int i = -1; i <= 1; ++i) sum += in[((z + k) * ny + (y + j)) * nx + x + i];
  out[(z * ny + y) * nx + x] = sum;
}
