// Tricubic interpolation, written out: 67 loads. a, b and c are the fractions of a cell by which
// each point moves along i, j and k.
#include "operators.h"
#include "weights.h"

#define row(j, k)                                                    \
    (a1 * at3(u0, i - 1, j, k) + a2 * at3(u0, i, j, k)               \
     + a3 * at3(u0, i + 1, j, k) + a4 * at3(u0, i + 2, j, k))
#define plane(k) \
    (b1 * row(j - 1, k) + b2 * row(j, k) + b3 * row(j + 1, k) + b4 * row(j + 2, k))

void tricubic(int nx, int ny, int nz, const real* restrict u0,
              real* restrict u1, const real* restrict a,
              const real* restrict b, const real* restrict c)
{
#pragma acc parallel deviceptr(u0, u1, a, b, c) vector_length(32)
    for_outer(k, nz, 1, 2)
        for_middle(j, ny, 1, 2)
            for_inner(i, nx, 1, 2) {
                real x = at3(a, i, j, k), y = at3(b, i, j, k), z = at3(c, i, j, k);
                real a1 = cubic1(x), a2 = cubic2(x), a3 = cubic3(x), a4 = cubic4(x);
                real b1 = cubic1(y), b2 = cubic2(y), b3 = cubic3(y), b4 = cubic4(y);
                real c1 = cubic1(z), c2 = cubic2(z), c3 = cubic3(z), c4 = cubic4(z);
                at3(u1, i, j, k) = c1 * plane(k - 1) + c2 * plane(k)
                                 + c3 * plane(k + 1) + c4 * plane(k + 2);
            }
}
