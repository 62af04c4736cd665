// Gaussian blur over 5 x 5 points in two dimensions: 25 loads. sD is the weight at squared
// distance D.
#include "operators.h"

void gaussblur(int nx, int ny, real f, real s0, real s1, real s2, real s4,
               real s5, real s8, const real* restrict w0,
               real* restrict w1)
{
#pragma acc parallel deviceptr(w0, w1) vector_length(32)
    for_outer(j, ny, 2, 2)
        for_inner(i, nx, 2, 2)
            at2(w1, i, j) = f * (s0 * at2(w0, i, j)
                + s1 * (at2(w0, i - 1, j) + at2(w0, i + 1, j)
                      + at2(w0, i, j - 1) + at2(w0, i, j + 1))
                + s2 * (at2(w0, i - 1, j - 1) + at2(w0, i + 1, j - 1)
                      + at2(w0, i - 1, j + 1) + at2(w0, i + 1, j + 1))
                + s4 * (at2(w0, i - 2, j) + at2(w0, i + 2, j)
                      + at2(w0, i, j - 2) + at2(w0, i, j + 2))
                + s5 * (at2(w0, i - 2, j - 1) + at2(w0, i - 1, j - 2)
                      + at2(w0, i + 1, j - 2) + at2(w0, i + 2, j - 1)
                      + at2(w0, i - 2, j + 1) + at2(w0, i - 1, j + 2)
                      + at2(w0, i + 1, j + 2) + at2(w0, i + 2, j + 1))
                + s8 * (at2(w0, i - 2, j - 2) + at2(w0, i + 2, j - 2)
                      + at2(w0, i - 2, j + 2) + at2(w0, i + 2, j + 2)));
}
