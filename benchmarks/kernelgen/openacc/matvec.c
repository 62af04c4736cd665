// Product of a matrix and a vector, y[i] = sum over j of a[i,j] * x[j], the inner loop sequential:
// two loads a step, unrolled by the compiler.
#include "operators.h"

void matvec(int nx, int ny, const real* restrict a,
            const real* restrict x, real* restrict y)
{
#pragma acc parallel deviceptr(a, x, y) vector_length(32)
#pragma acc loop independent gang vector
    for (int i = 0; i < nx; i++) {
        real sum = 0;
#pragma acc loop seq
        for (int j = 0; j < ny; j++)
            sum += at2(a, i, j) * x[j];
        y[i] = sum;
    }
}
