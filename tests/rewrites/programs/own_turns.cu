// nvcc -arch=sm_80 -fmad=false -ptx own_turns.cu
// The programs whose number of turns is a constant, with one of its own for each thread: the last
// one makes none.

#define TURNS (n - 1 - i)
#define PARTICLES TURNS
#include "../../../benchmarks/programs/cuda/forces.cu"
#include "../../../benchmarks/programs/cuda/gather.cu"
