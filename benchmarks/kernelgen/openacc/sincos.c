// Sine of one array plus cosine of another: 2 loads of data. The library's argument reduction
// adds a table look-up and a local array.
#include <tgmath.h>

#include "operators.h"

void sincos_xy(int nx, int ny, int nz, const real* restrict x,
               const real* restrict y, real* restrict xy)
{
#pragma acc parallel deviceptr(x, y, xy) vector_length(32)
    for_outer(k, nz, 0, 0)
        for_middle(j, ny, 0, 0)
            for_inner(i, nx, 0, 0)
                at3(xy, i, j, k) = sin(at3(x, i, j, k)) + cos(at3(y, i, j, k));
}
