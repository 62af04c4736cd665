// Every load has the bounds check of its own index. Lane i's load of a[x+1] is made iff x+1 < n, and
// lane i+1's load of a[x] iff its x < n: the same condition, so the neighbour has made its load.
__global__ void g(const unsigned char *__restrict__ a, int *__restrict__ out, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, s = 0;
  if (x < n) s += a[x] * 3;
  if (x + 1 < n) s += a[x + 1] * 5;
  if (x + 2 < n) s += a[x + 2] * 7;
  out[x] = s;
}
