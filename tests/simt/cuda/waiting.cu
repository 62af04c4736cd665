// Loops that wait for what other threads do, or for nothing.
extern "C" __global__ void bump2(int *lock, int *count)
{
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *count += 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}
// The last of a warp of spinning lanes holds the barrier of the block up.
extern "C" __global__ void behind(volatile int *flag, int *out)
{
    if (threadIdx.x == 0) while (flag[0] == 0) __nanosleep(20);
    __syncthreads();
    out[threadIdx.x] = 1;
}
// Every block waits for the one before it, and lets the next one go.
extern "C" __global__ void chain(volatile int *flag, int *out)
{
    if (threadIdx.x == 0) while (blockIdx.x && flag[blockIdx.x - 1] == 0) __nanosleep(20);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) flag[blockIdx.x] = 1;
}
// The other way round: a block waits for the one behind it.
extern "C" __global__ void backwards(volatile int *flag, int *out)
{
    if (threadIdx.x == 0) while (blockIdx.x + 1 < gridDim.x && flag[blockIdx.x + 1] == 0) ;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) flag[blockIdx.x] = 1;
}
// Gives up after a time.
extern "C" __global__ void patient(volatile int *flag, int *out, int cycles)
{
    long long start = clock64();
    while (flag[0] == 0 && clock64() - start < cycles) ;
    out[threadIdx.x] = 1;
}
// Lanes that part in every turn of the loop, and a lane that sets the flag.
extern "C" __global__ void parting(volatile int *flag, int *out)
{
    int n = 0;
    if (threadIdx.x == 5) { flag[0] = 1; return; }
    while (flag[0] == 0) {
        if (threadIdx.x & 1) n = flag[1]; else n = flag[2];
    }
    out[threadIdx.x] = n;
}
// A spin whose state is in local memory, and a long count whose state changes.
extern "C" __global__ void counting(volatile int *flag, int *out, int n)
{
    volatile int i;
    for (i = 0; i < n; i++) if (flag[0] != 0) break;
    out[threadIdx.x] = i;
}
// A ring between two warps.
extern "C" __global__ void ring(const int *in, int *out, int n)
{
    __shared__ volatile int slot[4], head, tail;
    if (threadIdx.x == 0) head = tail = 0;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 0; i < n; i++) {
            while (head - tail == 4) ;
            slot[i & 3] = in[i];
            __threadfence_block();
            head = i + 1;
        }
    else if (threadIdx.x == 32)
        for (int i = 0; i < n; i++) {
            while (head == i) ;
            out[i] = slot[i & 3] + 1;
            __threadfence_block();
            tail = i + 1;
        }
}
// The flag toggles for ever: something changes, and nothing ends.
extern "C" __global__ void toggling(int *flag, int *out)
{
    while (atomicXor(flag, 1) != 7) ;
    out[threadIdx.x] = 1;
}
// A barrier or a vote in the loop.
extern "C" __global__ void together(volatile int *flag, int *out)
{
    while (flag[0] != 7) __syncthreads();
    out[threadIdx.x] = 1;
}
extern "C" __global__ void voting(volatile int *flag, int *out)
{
    while (!__any_sync(-1, flag[threadIdx.x] == 7)) ;
    out[threadIdx.x] = 1;
}
extern "C" __global__ void ticket(int *next, volatile int *serving, int *count)
{
    int mine = atomicAdd(next, 1);
    while (*serving != mine) __nanosleep(8);
    *count += 1;
    __threadfence();
    *serving = mine + 1;
}
