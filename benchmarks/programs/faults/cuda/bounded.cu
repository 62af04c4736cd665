// The launch bounds allow 32 registers, the kernel wants more than twice as many.
#include "many.h"

#ifdef MENDED
#define BOUNDS __launch_bounds__(512, 1)
#else
#define BOUNDS __launch_bounds__(1024, 2)
#endif

extern "C" __global__ void BOUNDS bounded(int n, const float *__restrict__ in,
                                          float *__restrict__ out)
{
    many<64>(n, in, out);
}
