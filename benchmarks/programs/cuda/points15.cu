// A point, its six neighbours and the eight corners around it.
// INDEX is the type of sizes and indices.
extern "C" __global__ void points15(INDEX nx, INDEX ny, INDEX nz, const float *__restrict__ in,
                                    float *__restrict__ out) {
  INDEX x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y + 1, z = blockIdx.z + 1;
  if (x >= nx - 1) return;
#define AT(i, j, k) in[((z + (INDEX)(k)) * ny + (y + (INDEX)(j))) * nx + x + (INDEX)(i)]
  float sides = AT(-1, 0, 0) + AT(1, 0, 0) + AT(0, -1, 0) + AT(0, 1, 0) + AT(0, 0, -1) + AT(0, 0, 1);
  float corners = AT(-1, -1, -1) + AT(1, -1, -1) + AT(-1, 1, -1) + AT(1, 1, -1) +
                  AT(-1, -1, 1) + AT(1, -1, 1) + AT(-1, 1, 1) + AT(1, 1, 1);
  out[(z * ny + y) * nx + x] = AT(0, 0, 0) * 0.5f + sides * 0.0625f + corners * 0.015625f;
}
