// The limit of registers makes it spill in its loop.
#include "many.h"

#ifdef MENDED
#define LIMIT
#else
#define LIMIT __maxnreg__(40)
#endif

extern "C" __global__ void LIMIT capped(int n, const float *__restrict__ in,
                                        float *__restrict__ out)
{
    many<48>(n, in, out);
}
