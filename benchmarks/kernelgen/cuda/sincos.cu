// Sine of one array plus cosine of another: 2 loads of data. The library's argument reduction
// adds a table look-up and a local array.
#include "operators.h"

__device__ inline float sine(float x) { return sinf(x); }
__device__ inline float cosine(float x) { return cosf(x); }
__device__ inline double sine(double x) { return sin(x); }
__device__ inline double cosine(double x) { return cos(x); }

extern "C" __global__ void sincos_xy(int nx, int ny, int nz, const real* __restrict__ x,
                                     const real* __restrict__ y, real* __restrict__ xy)
{
    for_outer(k, nz, 0, 0)
        for_middle(j, ny, 0, 0)
            for_inner(i, nx, 0, 0)
                at3(xy, i, j, k) = sine(at3(x, i, j, k)) + cosine(at3(y, i, j, k));
}
