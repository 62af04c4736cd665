// Conway's game of life: the eight neighbours of each cell.
// INDEX is the type of sizes and indices.
extern "C" __global__ void life(INDEX width, INDEX height, const int *__restrict__ in,
                                int *__restrict__ out) {
  INDEX x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y + 1;
  if (x >= width - 1 || y >= height - 1) return;
  int around = in[(y - 1) * width + x - 1] + in[(y - 1) * width + x] + in[(y - 1) * width + x + 1] +
               in[y * width + x - 1] + in[y * width + x + 1] +
               in[(y + 1) * width + x - 1] + in[(y + 1) * width + x] + in[(y + 1) * width + x + 1];
  int here = in[y * width + x];
  out[y * width + x] = around == 3 || (around == 2 && here);
}
