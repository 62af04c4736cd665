// 260 values live at a time, five more than a thread has registers.
#include "many.h"

#ifdef MENDED
#define WIDE 96
#else
#define WIDE 260
#endif

extern "C" __global__ void wide(int n, const float *__restrict__ in, float *__restrict__ out)
{
    many<WIDE>(n, in, out);
}
