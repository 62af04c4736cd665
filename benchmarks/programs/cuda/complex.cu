// out = a * b + out of complex numbers in double, none aligned to more than a double.
struct Complex { double re, im; };

extern "C" __global__ void complex(int n, const Complex* a, const Complex* b, Complex* out)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    Complex p = a[i], q = b[i], sum = out[i];
    sum.re += p.re * q.re - p.im * q.im;
    sum.im += p.re * q.im + p.im * q.re;
    out[i] = sum;
}
