// A record with two doubles and an int: three accesses of 24-byte stride.
#ifdef MENDED
extern "C" __global__ void soil(int n, const double *__restrict__ wet,
                                const double *__restrict__ warm, const int *__restrict__ kind,
                                double *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = kind[i] ? wet[i] * warm[i] : 0.0;
}
#else
struct Soil { double wet, warm; int kind; };

extern "C" __global__ void soil(int n, const Soil *__restrict__ soil, double *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = soil[i].kind ? soil[i].wet * soil[i].warm : 0.0;
}
#endif
