// nvcc -arch=sm_80 -fmad=false -ptx own_iterations.cu
// The programs whose number of iterations is a constant, with one of its own for each thread: the
// last one makes none.

#define ITERATIONS (n - 1 - i)
#define PARTICLES ITERATIONS
#include "../../../benchmarks/programs/cuda/forces.cu"
#include "../../../benchmarks/programs/cuda/gather.cu"
