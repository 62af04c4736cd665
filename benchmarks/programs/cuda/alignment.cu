// Scores of aligning two sequences of 16 letters, one diagonal after the other (Needleman and
// Wunsch): element [i][j] takes the best of its neighbours above, to the left and in between.
extern "C" __global__ void __launch_bounds__(16)
alignment(int gap, const int* reward, int* scores)
{
    __shared__ int best[17][17], gains[16][16];
    int t = threadIdx.x;
    const int* own = reward + 256 * blockIdx.x;
    int* score = scores + 256 * blockIdx.x;
    for (int i = 0; i < 16; ++i)
        gains[i][t] = own[16 * i + t];
    best[0][t + 1] = -gap * (t + 1);
    best[t + 1][0] = -gap * (t + 1);
    if (t == 0)
        best[0][0] = 0;
    __syncthreads();
    for (int d = 0; d < 31; ++d) {
        int i = t, j = d - t;
        if (j >= 0 && j < 16) {
            int found = best[i][j] + gains[i][j];
            found = max(found, best[i + 1][j] - gap);
            best[i + 1][j + 1] = max(found, best[i][j + 1] - gap);
        }
        __syncthreads();
    }
    for (int i = 0; i < 16; ++i)
        score[16 * i + t] = best[i + 1][t + 1];
}
