// A library with the functions of HIP and of comgr that the driver loads, for tests: memory is the
// host's, work is done when it is asked for, and a kernel's LLVM IR is compiled for this processor
// by clang-19 and run by `amd_machine.c`. Environment: STUB_ARCH (gfx942), STUB_DIR (where files go),
// STUB_MACHINE (`amd_machine.c`, compiled).

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t handle;
static const char *arch(void) { const char *a = getenv("STUB_ARCH"); return a ? a : "gfx942"; }

// comgr: data and sets are entries of one table.
struct entry { int kind; size_t size; char *bytes; int count; handle of[8]; };
static struct entry all[1 << 16];
static handle next = 1;
static int fresh(int kind, handle *to) { all[next].kind = kind; *to = next++; return 0; }

void amd_comgr_get_version(size_t *major, size_t *minor) { *major = 2, *minor = 4; }
int amd_comgr_get_isa_count(size_t *n) { *n = 2; return 0; }
int amd_comgr_get_isa_name(size_t i, const char **to) {
    *to = i ? "amdgcn-amd-amdhsa--gfx1100" : "amdgcn-amd-amdhsa--gfx942";
    return 0;
}
int amd_comgr_create_data(int kind, handle *to) { return fresh(kind, to); }
int amd_comgr_release_data(handle d) { return 0; }
int amd_comgr_set_data(handle d, size_t n, const char *bytes) {
    all[d].size = n;
    all[d].bytes = memcpy(malloc(n + 1), bytes, n);
    return 0;
}
int amd_comgr_set_data_name(handle d, const char *name) { return 0; }
int amd_comgr_get_data(handle d, size_t *n, char *to) {
    if (to) memcpy(to, all[d].bytes, all[d].size);
    *n = all[d].size;
    return 0;
}
int amd_comgr_create_data_set(handle *to) { return fresh(0, to); }
int amd_comgr_destroy_data_set(handle s) { return 0; }
int amd_comgr_data_set_add(handle s, handle d) { all[s].of[all[s].count++] = d; return 0; }
int amd_comgr_action_data_count(handle s, int kind, size_t *n) {
    *n = 0;
    for (int i = 0; i < all[s].count; i++) *n += all[all[s].of[i]].kind == kind;
    return 0;
}
int amd_comgr_action_data_get_data(handle s, int kind, size_t n, handle *to) {
    for (int i = 0; i < all[s].count; i++)
        if (all[all[s].of[i]].kind == kind) return *to = all[s].of[i], 0;
    return 2;
}
int amd_comgr_create_action_info(handle *to) { return fresh(0, to); }
int amd_comgr_destroy_action_info(handle i) { return 0; }
int amd_comgr_action_info_set_isa_name(handle i, const char *name) { return strstr(name, arch()) ? 0 : 2; }
int amd_comgr_action_info_set_option_list(handle i, const char **list, size_t n) { return 0; }
int amd_comgr_action_info_set_logging(handle i, _Bool on) { return 0; }
// A text stays a text: 6 and 9 are the actions of comgr 2.
int amd_comgr_do_action(int action, handle info, handle from, handle to) {
    int before = action == 6 ? 6 : action == 9 ? 7 : -1;
    handle d, made;
    if (amd_comgr_action_data_get_data(from, before, 0, &d)) return 2;
    fresh(before + 1, &made);
    amd_comgr_set_data(made, all[d].size, all[d].bytes);
    return amd_comgr_data_set_add(to, made);
}

// HIP.
int elinvar_emulated_hip(void) { return 1; }
int hipRuntimeGetVersion(int *v) { *v = 60243012; return 0; }
int hipInit(unsigned flags) { return 0; }
const char *hipGetErrorName(int e) { return e == 2 ? "hipErrorOutOfMemory" : "hipErrorOfTheStub"; }
int hipGetDeviceCount(int *n) { *n = 1; return 0; }
int hipDeviceGet(int *d, int i) { *d = i; return 0; }
int hipDeviceGetName(char *to, int n, int d) { snprintf(to, n, "Stub of %s", arch()); return 0; }
int hipDeviceTotalMem(size_t *n, int d) { *n = 1 << 30; return 0; }
int hipDeviceGetAttribute(int *to, int a, int d) { *to = a == 63 ? 4 : a == 88; return 0; }
int hipGetDevicePropertiesR0600(char *to, int d) {
    snprintf(to, 256, "Stub of %s", arch());
    strcat(strcpy(to + 1160, arch()), ":sramecc+:xnack-");
    return 0;
}
int hipSetDevice(int d) { return d ? 101 : 0; }
int hipStreamCreateWithFlags(void **to, unsigned f) { *to = malloc(1); return 0; }
int hipStreamDestroy(void *s) { free(s); return 0; }
int hipStreamSynchronize(void *s) { return 0; }
int hipStreamWaitEvent(void *s, void *e, unsigned f) { return 0; }
// An event is how much was recorded before it.
static long recorded;
int hipEventCreateWithFlags(void **to, unsigned f) { *to = calloc(1, sizeof(long)); return 0; }
int hipEventDestroy(void *e) { free(e); return 0; }
int hipEventRecord(void *e, void *s) { *(long *)e = ++recorded; return 0; }
int hipEventSynchronize(void *e) { return 0; }
int hipEventQuery(void *e) { return 0; }
int hipEventElapsedTime(float *to, void *a, void *b) { *to = *(long *)b - *(long *)a; return 0; }
int hipMalloc(void **to, size_t n) {
    if (n > 1 << 28) return 2;
    *to = aligned_alloc(256, (n + 511) / 256 * 256);
    return 0;
}
int hipFree(void *p) { free(p); return 0; }
int hipMallocAsync(void **to, size_t n, void *s) { return hipMalloc(to, n); }
int hipFreeAsync(void *p, void *s) { return hipFree(p); }
int hipHostMalloc(void **to, size_t n, unsigned f) { return hipMalloc(to, n); }
int hipHostFree(void *p) { return hipFree(p); }
int hipMemcpyHtoDAsync(void *to, const void *from, size_t n, void *s) { memcpy(to, from, n); return 0; }
int hipMemcpyDtoHAsync(void *to, const void *from, size_t n, void *s) { memcpy(to, from, n); return 0; }
int hipMemcpyDtoDAsync(void *to, const void *from, size_t n, void *s) { memmove(to, from, n); return 0; }

struct module {
    void *library, *kernel;
    void (*launch)(void *, void *, const int *, int);
    int wave;
};
// The text for this processor, and `run`, which takes addresses of parameters as a launch has them.
static int retarget(const char *text, const char *to) {
    FILE *f = fopen(to, "w");
    char *copy = strdup(text), *line, *rest = copy, list[8192] = "";
    int count = 0, inside = 0;
    if (!f) return 1;
    fputs("target triple = \"x86_64-unknown-linux-gnu\"\n", f);
    char calls[65536] = "";
    while ((line = strsep(&rest, "\n"))) {
        if (!strncmp(line, "target", 6)) continue;
        if (!strncmp(line, "attributes", 10)) {
            fputs("attributes #0 = { nounwind \"denormal-fp-math\"=\"ieee,ieee\" }\n", f);
            continue;
        }
        if (!strncmp(line, "define", 6)) inside = 1;
        else if (*line == ')') inside = 0;
        else if (inside) {
            char type[32] = "ptr";
            if (strncmp(line + 2, "ptr", 3)) sscanf(line + 2, "%31s", type);
            char *end = calls + strlen(calls);
            sprintf(end, "  %%a%d = getelementptr ptr, ptr %%all, i64 %d\n  %%q%d = load ptr, ptr %%a%d\n"
                         "  %%x%d = load %s, ptr %%q%d, align 4\n", count, count, count, count, count, type, count);
            sprintf(list + strlen(list), "%s%s %%x%d", count ? ", " : "", type, count);
            count++;
        }
        for (char *c = line; *c;) {
            const char *drop[] = {" addrspace(1)", " addrspace(3)", " immarg", " amdgpu_kernel", " !reqd_work_group_size !1"};
            int n = 0;
            for (int i = 0; i < 5; i++)
                if (!strncmp(c, drop[i], strlen(drop[i]))) n = strlen(drop[i]);
            if (!strncmp(c, "@llvm.amdgcn.", 13)) n = 13, fputs("@amdgcn.", f);
            if (!strncmp(c, "@main(", 6)) n = 6, fputs("@kernel(", f);
            if (!n) fputc(*c++, f);
            c += n;
        }
        fputc('\n', f);
    }
    fprintf(f, "define void @run(ptr %%all) {\n%s  call void @kernel(%s)\n  ret void\n}\n", calls, list);
    free(copy);
    return fclose(f);
}
int hipModuleLoadDataEx(void **to, const void *image, unsigned n, void *a, void *b) {
    static int number;
    char text[512], library[512], command[2048];
    const char *dir = getenv("STUB_DIR"), *waves = strstr(image, "waves of ");
    snprintf(text, sizeof text, "%s/k%d.ll", dir, number);
    snprintf(library, sizeof library, "%s/k%d.so", dir, number++);
    if (!waves || retarget(image, text)) return 200;
    snprintf(command, sizeof command,
             "clang-19 -O1 -ffp-contract=off -mfma -mf16c -mavx2 -shared -fPIC -Wno-override-module %s %s -lm -o %s",
             text, getenv("STUB_MACHINE"), library);
    if (system(command)) return 200;
    struct module *m = calloc(1, sizeof *m);
    m->library = dlopen(library, RTLD_NOW);
    if (!m->library) return fprintf(stderr, "%s\n", dlerror()), 200;
    m->kernel = dlsym(m->library, "run");
    m->launch = (void (*)(void *, void *, const int *, int))dlsym(m->library, "amd_launch");
    m->wave = atoi(waves + 9);
    *to = m;
    return 0;
}
int hipModuleUnload(void *m) { return 0; }
int hipModuleGetFunction(void **to, void *m, const char *name) { *to = m; return strcmp(name, "main") ? 500 : 0; }
int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y, unsigned z,
                          unsigned shared, void *stream, void **params, void **extra) {
    struct module *m = f;
    int shape[7] = {m->wave, x, y, z, gx, gy, gz};
    m->launch(m->kernel, params, shape, 0);
    return 0;
}
