// A driver for tests: the functions of libcuda.so.1 that ptxsw calls, on a device that is memory of
// the process. A launch is written down instead of run: into the file that LAUNCHES names. What FAIL
// names fails with status STATUS.

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK 0
#define INVALID_VALUE 1
#define OUT_OF_MEMORY 2
#define NOT_FOUND 500

static int events;
static size_t dynamic = 48 << 10; // shared memory that a launch may ask for

static int status(const char *function) {
    const char *fail = getenv("FAIL");
    return fail && !strcmp(fail, function) ? atoi(getenv("STATUS")) : OK;
}

static void note(const char *format, long one, long two) {
    FILE *file = fopen(getenv("LAUNCHES"), "a");
    fprintf(file, format, one, two);
    fclose(file);
}

#define CHECKED \
    if (status(__func__)) return status(__func__)

int cuInit(unsigned flags) { CHECKED; return flags; }
int cuDriverGetVersion(int *version) { *version = 13000; return OK; }
int cuDeviceGetCount(int *count) { CHECKED; *count = 1; return OK; }
int cuDeviceGet(int *device, int number) { *device = number + 7; return OK; }
int cuDeviceGetName(char *name, int size, int device) {
    snprintf(name, size, "Stub %d", device);
    return OK;
}
int cuDeviceTotalMem_v2(size_t *size, int device) { *size = 80ull << 30; return OK; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 75: *value = 9; return OK; // COMPUTE_CAPABILITY_MAJOR
    case 76: *value = 0; return OK; // COMPUTE_CAPABILITY_MINOR
    case 5: *value = 2147483647; return OK; // MAX_GRID_DIM_X
    case 6: case 7: *value = 65535; return OK; // MAX_GRID_DIM_Y and Z
    case 13: *value = 1980000; return OK; // CLOCK_RATE
    case 38: *value = 50 << 20; return OK; // L2_CACHE_SIZE
    }
    return INVALID_VALUE; // one that this device does not tell
}
int cuDevicePrimaryCtxRetain(void **context, int device) { CHECKED; *context = &events; return OK; }
int cuDevicePrimaryCtxRelease_v2(int device) { note("released %ld\n", device, 0); return OK; }
int cuCtxSetCurrent(void *context) { return context == &events ? OK : INVALID_VALUE; }
int cuCtxSynchronize(void) { CHECKED; return OK; }

int cuModuleLoadData(void **module, const void *image) {
    CHECKED;
    *module = strdup(image);
    return OK;
}
int cuModuleUnload(void *module) { note("unloaded\n", 0, 0); free(module); return OK; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = module;
    return strstr(module, name) ? OK : NOT_FOUND;
}
int cuFuncGetAttribute(int *value, int attribute, void *function) {
    // threads, static shared, constant and local memory, registers
    const int values[] = {768, 1024, 0, 16, 40};
    *value = values[attribute];
    return OK;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
    note("attribute %ld is %ld\n", attribute, value);
    dynamic = value;
    return attribute == 8 ? OK : INVALID_VALUE; // MAX_DYNAMIC_SHARED_SIZE_BYTES
}

int cuMemAlloc_v2(uint64_t *address, size_t size) {
    if (size > 1ull << 40) return OUT_OF_MEMORY;
    *address = (uint64_t)malloc(size);
    return OK;
}
int cuMemFree_v2(uint64_t address) { note("freed\n", 0, 0); free((void *)address); return OK; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) {
    memcpy((void *)to, from, size);
    return OK;
}
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
    CHECKED;
    memcpy(to, (void *)from, size);
    return OK;
}
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t size) {
    memcpy((void *)to, (void *)from, size);
    return OK;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra) {
    CHECKED;
    if (stream || parameters || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4])
        return INVALID_VALUE;
    const unsigned char *bytes = extra[1];
    size_t size = *(size_t *)extra[3];
    FILE *file = fopen(getenv("LAUNCHES"), "a");
    fprintf(file, "launch %u %u %u, %u %u %u, shared %u:", gx, gy, gz, bx, by, bz, shared);
    for (size_t at = 0; at < size; at++) fprintf(file, " %02x", bytes[at]);
    fprintf(file, "\n");
    fclose(file);
    return shared <= dynamic ? OK : INVALID_VALUE;
}

int cuEventCreate(void **event, unsigned flags) { *event = malloc(1); events++; return OK; }
int cuEventDestroy_v2(void *event) { note("events left: %ld\n", --events, 0); free(event); return OK; }
int cuEventRecord(void *event, void *stream) { return stream ? INVALID_VALUE : OK; }
int cuEventSynchronize(void *event) { return OK; }
int cuEventElapsedTime(float *ms, void *begin, void *end) {
    *ms = begin != end ? 2.5f : -1;
    return OK;
}
int cuEventElapsedTime_v2(float *ms, void *begin, void *end) {
    return cuEventElapsedTime(ms, begin, end);
}

int cuGetErrorString(int error, const char **words) {
    *words = error == OUT_OF_MEMORY ? "out of memory"
             : error == 100         ? "no CUDA-capable device is detected"
             : error == 700         ? "an illegal memory access was encountered"
                                    : NULL;
    return *words ? OK : INVALID_VALUE;
}

// The newest version of a function, as CUDA gives it.
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *found) {
    static void *self;
    char newer[100];
    if (!self) self = dlopen("libcuda.so.1", RTLD_LAZY);
    snprintf(newer, sizeof newer, "%s_v2", name);
    *function = dlsym(self, newer);
    if (!*function) *function = dlsym(self, name);
    if (found) *found = *function ? 0 : 1;
    return *function ? OK : NOT_FOUND;
}
