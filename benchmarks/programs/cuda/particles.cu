// One step of particles that lie as structs of FIELDS floats: DIMS coordinates, as many speeds,
// and what else belongs to a particle. A thread loads 2*DIMS neighbouring floats and stores them.
struct Particle {
    float at[DIMS];
    float speed[DIMS];
#if FIELDS > 2 * DIMS
    float more[FIELDS - 2 * DIMS];
#endif
};

extern "C" __global__ void particles(int n, float dt, float drag, Particle* all)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    Particle& p = all[i];
    for (int d = 0; d < DIMS; ++d) {
        float speed = p.speed[d] * drag;
        p.at[d] += dt * speed;
        p.speed[d] = speed;
    }
}
