// Special functions, as numerical programs call them: what the compiler brings in with the calls is
// long, straight or branching arithmetic. special.ptx: nvcc -ptx -arch=sm_80 special.cu
#include <math.h>

template <class Real>
__device__ Real gamma_terms(Real x, Real y) {
    return lgamma(x) + tgamma(y) - pow(x, y) * expm1(-x) + log1p(y);
}

template <class Real>
__device__ Real bessel_terms(Real x, int order) {
    return j0(x) + j1(x) * y0(x) - jn(order, x) + y1(x);
}

template <class Real>
__device__ Real error_terms(Real x) {
    return erf(x) + erfc(x) * normcdf(x) - erfinv(x) + erfcx(x) + normcdfinv(x);
}

template <class Real>
__device__ Real circular_terms(Real x, Real y) {
    return sin(x) + cos(y) * tan(x) - atan2(x, y) + asin(x) * acos(y) + sinpi(y);
}

template <class Real>
__device__ Real hyperbolic_terms(Real x, Real y) {
    return sinh(x) + cosh(y) * tanh(x) - asinh(x) + acosh(y) * atanh(x) + cbrt(y) + hypot(x, y);
}

template <class Real>
__device__ void every(const Real *x, const Real *y, Real *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = gamma_terms(x[i], y[i]) + bessel_terms(x[i], i & 7) + error_terms(y[i])
           + circular_terms(x[i], y[i]) + hyperbolic_terms(x[i], y[i]) + fmod(x[i], y[i]);
}

extern "C" __global__ void special_float(const float *x, const float *y, float *out, int n) {
    every(x, y, out, n);
}
extern "C" __global__ void special_double(const double *x, const double *y, double *out, int n) {
    every(x, y, out, n);
}
