// As many values as fit: all 255 registers of a thread are taken.
#include "many.h"

#ifdef MENDED
#define WIDE 96
#else
#define WIDE 242
#endif

extern "C" __global__ void brim(int n, const float *__restrict__ in, float *__restrict__ out)
{
    many<WIDE>(n, in, out);
}
