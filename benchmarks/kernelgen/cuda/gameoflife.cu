// Conway's game of life in two dimensions, without a branch: 9 loads. With L live neighbours the
// quotient is 1 where the cell lives on and all but 0 elsewhere.
#include "operators.h"

extern "C" __global__ void gameoflife(int nx, int ny, const real* __restrict__ w0,
                                      real* __restrict__ w1)
{
    for_outer(j, ny, 1, 1)
        for_inner(i, nx, 1, 1) {
            real c = at2(w0, i, j);
            real l = at2(w0, i - 1, j) + at2(w0, i + 1, j) + at2(w0, i, j - 1)
                   + at2(w0, i, j + 1) + at2(w0, i - 1, j - 1) + at2(w0, i + 1, j - 1)
                   + at2(w0, i - 1, j + 1) + at2(w0, i + 1, j + 1);
            at2(w1, i, j) = (literal)1 / ((literal)1 + (c + l - (literal)3) * (l - (literal)3) * (literal)1e20);
        }
}
