// Kernels in which a rewrite finds nothing to do, each for another reason.

// how far lanes are from each other in shared memory is given at launch
extern "C" __global__ void pitched(const float *a, float *b, int pitch) {
  extern __shared__ float tile[];
  int at = blockIdx.x * 256 + threadIdx.x;
  tile[threadIdx.x * pitch] = a[at];
  __syncthreads();
  b[at] = tile[threadIdx.x * pitch + 1];
}

// rows are padded for other blocks than those that are counted
extern "C" __global__ void padded(const float *a, float *b) {
  __shared__ float tile[32][33];
  int at = blockIdx.x * 256 + threadIdx.y * 16 + threadIdx.x;
  tile[threadIdx.y][threadIdx.x] = a[at];
  __syncthreads();
  b[at] = tile[threadIdx.x][threadIdx.y];
}

// four words that are known to be aligned
extern "C" __global__ void four_words(const float *a, float *b, int k) {
  __shared__ __align__(16) float tile[1024];
  tile[threadIdx.x] = a[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  const float *p = tile + 4 * (threadIdx.x & 63);
  b[blockIdx.x * 256 + threadIdx.x] = p[0] + p[1] * p[2] - p[3];
}

// the index of a ring buffer
extern "C" __global__ void ring(const float *a, float *b, unsigned long long head, unsigned long long size) {
  unsigned i = blockIdx.x * 256 + threadIdx.x;
  b[i] = a[(head + i) % size];
}
