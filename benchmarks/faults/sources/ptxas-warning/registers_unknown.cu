// A warp gives registers away in a kernel whose count at entry nobody fixed (C7508).
// target sm_90a
// block 128
// unseen: only ptxas knows
#ifdef MENDED
extern "C" __global__ void __maxnreg__(168) registers_unknown(int *out)
#else
extern "C" __global__ void registers_unknown(int *out)
#endif
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); // fault: ptxas-warning
    out[threadIdx.x] = threadIdx.x;
}
