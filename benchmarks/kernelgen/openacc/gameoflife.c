// Conway's game of life in two dimensions, without a branch: 9 loads. With L live neighbours the
// quotient is 1 where the cell lives on and all but 0 elsewhere.
#include "operators.h"

void gameoflife(int nx, int ny, const real* restrict w0,
                real* restrict w1)
{
#pragma acc parallel deviceptr(w0, w1) vector_length(32)
    for_outer(j, ny, 1, 1)
        for_inner(i, nx, 1, 1) {
            real c = at2(w0, i, j);
            real l = at2(w0, i - 1, j) + at2(w0, i + 1, j) + at2(w0, i, j - 1)
                   + at2(w0, i, j + 1) + at2(w0, i - 1, j - 1) + at2(w0, i + 1, j - 1)
                   + at2(w0, i - 1, j + 1) + at2(w0, i + 1, j + 1);
            at2(w1, i, j) = (real)1 / ((real)1 + (c + l - (real)3) * (l - (real)3) * (real)1e20);
        }
}
