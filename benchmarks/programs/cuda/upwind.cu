// Advection in two dimensions, first-order upwind, in double: the side is chosen by the sign of
// the velocity, both sides are loaded.
extern "C" __global__ void upwind(int nx, int ny, double dtdx, double dtdy,
                                  const double* __restrict__ q, const double* __restrict__ u,
                                  const double* __restrict__ v, double* __restrict__ out)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x + 1;
    int j = blockIdx.y + 1;
    if (i >= nx - 1 || j >= ny - 1)
        return;
    int at = i + nx * j;
    double c = q[at], w = q[at - 1], e = q[at + 1], s = q[at - nx], n = q[at + nx];
    double a = u[at], b = v[at];
    double dx = a > 0 ? c - w : e - c;
    double dy = b > 0 ? c - s : n - c;
    out[at] = c - (dtdx * (a * dx) + dtdy * (b * dy));
}
