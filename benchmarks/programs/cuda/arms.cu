// Both arms of a branch load the same fields, one of them behind a store to another field.
struct Cell {
    float wet, depth, visits, slope;
};

extern "C" __global__ void arms(int n, float* flow, Cell* cells)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    Cell* cell = cells + i;
    if (cell->wet > 0.5f) {
        cell->visits = cell->visits + 1.0f;
        flow[i] = cell->depth * 3.0f + cell->slope;
    } else {
        flow[i] = sqrtf(cell->depth) - cell->slope;
    }
}
