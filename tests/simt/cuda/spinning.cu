// Threads that wait for a word of memory in a loop.
extern "C" __global__ void pair(volatile int *flag, int *out)
{
    if (threadIdx.x < 16) {
        while (flag[threadIdx.x] == 0) ;
        out[threadIdx.x] = flag[threadIdx.x] + 1;
    } else
        flag[threadIdx.x - 16] = threadIdx.x;
}

extern "C" __global__ void never(volatile int *flag, int *out)
{
    while (flag[0] != 7) ;
    out[threadIdx.x] = 1;
}

extern "C" __global__ void bump(int *lock, int *count)
{
    while (atomicCAS(lock, 0, 1) != 0) ;
    *count += 1;
    atomicExch(lock, 0);
}

// Thread 0 waits for a warp that waits at a barrier for thread 0.
extern "C" __global__ void crossed(volatile int *flag, int *out)
{
    if (threadIdx.x == 0) while (flag[0] == 0) ;
    __syncthreads();
    if (threadIdx.x == 32) flag[0] = 1;
}

// Two warps take turns: each waits until the other has counted on, far longer than a look takes.
extern "C" __global__ void pingpong(volatile int *turn, volatile int *out)
{
    int me = threadIdx.x / 32;
    if (threadIdx.x % 32) return;
    for (int k = 0; k < 2; k++) {
        while (*turn % 2 != me) ;
        for (int wait = 0; wait < 3000; wait++) out[2] = wait;
        out[me] += *turn;
        __threadfence();
        *turn += 1;
    }
}

// Every iteration leaves memory as it was, but for a moment somebody may see a 1.
extern "C" __global__ void pulses(volatile int *flag, int *out)
{
    if (threadIdx.x == 32) {
        while (flag[1] == 0) { flag[0] = 1; flag[0] = 0; }
    } else if (threadIdx.x == 0) {
        while (flag[0] == 0) ;
        flag[1] = 1;
    }
}

// Nobody sets the flag, but time passes.
extern "C" __global__ void patient(volatile int *flag, int *out)
{
    while (flag[0] == 0 && clock() < 50000) ;
    out[threadIdx.x] = 1;
}
