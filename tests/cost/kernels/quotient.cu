// Quotients in double precision, read and written two at a time.
extern "C" __global__ void quotient(const double2* __restrict__ a, const double2* __restrict__ b, double2* c, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    double2 x = a[i], y = b[i];
    c[i] = make_double2(x.x / y.x, sqrt(x.y) + y.y);
  }
}
