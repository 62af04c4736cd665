// Eight fields of a cell, each in rows of its own, `pitch` bytes apart.
extern "C" __global__ void fields(size_t pitch, int width, const char *__restrict__ in,
                                  float *__restrict__ out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= width) return;
#define FIELD(n) *(const float *)(in + (y * 8 + (n)) * pitch + x * 4)
  out[y * width + x] = FIELD(0) + FIELD(1) + FIELD(2) + FIELD(3) + FIELD(4) + FIELD(5) + FIELD(6) +
                       FIELD(7);
}
