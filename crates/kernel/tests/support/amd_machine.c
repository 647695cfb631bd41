// Runs emitted LLVM IR that was compiled for this processor: one fiber for each invocation of a
// workgroup, one workgroup after the other. What the IR asks of an AMD device is answered here by
// what the documents of the device say, so this knows nothing of the emitter.
//
// A barrier, and whatever lanes of a wave do together, waits until all have come to the same. A
// fiber runs until it waits, forwards or backwards through the workgroup, so that a missing barrier
// shows in one of the two orders. A mistake ends the program with a sentence.
//
// Usage: machine KERNEL ORDER INPUT OUTPUT. The input is words of 64 bits: lanes of a wave, X Y Z of
// the workgroup, workgroups along x y z, how many buffers, bytes of parameters, bytes of each buffer;
// then the parameters and the buffers. The output is the buffers.

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1024
#define STACK (256 << 10)
#define NAMED(n) __asm__(n)

typedef void kernel_fn(void *params);

static int wave, threads, size[3], group[3], order;
static int me;                       // which invocation runs
static int done[MOST];
static void *stack[MOST], *at[MOST], *scheduler;
static long progress;                // how often a waiting lane was let go
static kernel_fn *running;
static void *params;

static void die(const char *what) {
    fprintf(stderr, "invocation %d of workgroup %d %d %d: %s\n", me, group[0], group[1], group[2], what);
    exit(3);
}

__attribute__((naked, noinline)) static void change(void **from, void *to) {
    __asm__("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
            "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
            "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret");
}
static void let_others(void) { change(&at[me], scheduler); }

static void invocation(void) {
    running(params);
    done[me] = 1;
    progress++;
    let_others();
    abort();
}

// A place where some wait for each other.
struct meeting {
    int come;
    long turn;
    const char *what;
};
// Comes to a meeting; `leave` waits until all have come.
static void meet(struct meeting *m, const char *what) {
    if (m->come > 0 && m->what != what) die("others of its wave or workgroup wait for something else");
    m->what = what;
    m->come++;
}
static void leave(struct meeting *m, int of) {
    if (m->come == of) {
        m->come = 0;
        m->turn++;
        progress++;
        return;
    }
    for (long turn = m->turn; m->turn == turn;) let_others();
}

static struct meeting everybody, waves[MOST];
static int lanes_here(void) {
    int first = me / wave * wave;
    return threads - first < wave ? threads - first : wave;
}

void s_barrier(void) NAMED("amdgcn.s.barrier");
void s_barrier(void) {
    meet(&everybody, "barrier");
    leave(&everybody, threads);
}

static uint32_t given[MOST][2], got[MOST];
// A lane gives two words and gets that of the lane which `from` names; absent lanes give 0.
static uint32_t exchange(const char *what, uint32_t v, uint32_t key, int (*from)(int lane, uint32_t key)) {
    struct meeting *m = &waves[me / wave];
    given[me][0] = v;
    given[me][1] = key;
    meet(m, what);
    int here = lanes_here(), first = me / wave * wave;
    if (m->come == here)
        for (int l = 0; l < here; l++) {
            int f = from(l, given[first + l][1]);
            got[first + l] = f < here ? given[first + f][0] : 0;
        }
    leave(m, here);
    return got[me];
}

static int of_bpermute(int lane, uint32_t bytes) { return bytes / 4 % wave; }
uint32_t bpermute(uint32_t bytes, uint32_t v) NAMED("amdgcn.ds.bpermute");
uint32_t bpermute(uint32_t bytes, uint32_t v) { return exchange("ds_bpermute", v, bytes, of_bpermute); }

static int of_swizzle(int lane, uint32_t p) {
    return (lane & 32) | ((((lane & 31) & (p & 31)) | (p >> 5 & 31)) ^ (p >> 10 & 31));
}
uint32_t swizzle(uint32_t v, uint32_t p) NAMED("amdgcn.ds.swizzle");
uint32_t swizzle(uint32_t v, uint32_t p) {
    if (p >> 15) die("ds_swizzle in another mode");
    return exchange("ds_swizzle", v, p, of_swizzle);
}

static int of_readlane(int lane, uint32_t key) { return key % wave; }
uint32_t readlane(uint32_t v, uint32_t lane) NAMED("amdgcn.readlane");
uint32_t readlane(uint32_t v, uint32_t lane) { return exchange("readlane", v, lane, of_readlane); }

static int of_dpp(int lane, uint32_t c) {
    if (c < 0x100) return (lane & ~3) | (c >> 2 * (lane & 3) & 3);
    if (c == 0x140) return lane ^ 15;
    if (c == 0x141) return lane ^ 7;
    die("an unknown control of DPP");
    return 0;
}
uint32_t dpp(uint32_t old, uint32_t v, uint32_t c, int rows, int banks, _Bool bound) NAMED("amdgcn.update.dpp.i32");
uint32_t dpp(uint32_t old, uint32_t v, uint32_t c, int rows, int banks, _Bool bound) {
    if (rows != 15 || banks != 15) die("DPP of some rows only");
    return exchange("dpp", v, c, of_dpp);
}

// v_sqrt_f32 may be wrong by a unit, so this is, now and then in either direction.
float near_sqrt(float x) NAMED("amdgcn.sqrt.f32");
float near_sqrt(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    float r = sqrtf(x);
    if (!(r > 1e-19f && r < 1e19f)) return r;
    return bits % 3 == 0 ? r : nextafterf(r, bits % 3 == 1 ? 1e30f : 0);
}

int group_x(void) NAMED("amdgcn.workgroup.id.x");
int group_y(void) NAMED("amdgcn.workgroup.id.y");
int group_z(void) NAMED("amdgcn.workgroup.id.z");
int item_x(void) NAMED("amdgcn.workitem.id.x");
int item_y(void) NAMED("amdgcn.workitem.id.y");
int item_z(void) NAMED("amdgcn.workitem.id.z");
int group_x(void) { return group[0]; }
int group_y(void) { return group[1]; }
int group_z(void) { return group[2]; }
int item_x(void) { return me % size[0]; }
int item_y(void) { return me / size[0] % size[1]; }
int item_z(void) { return me / size[0] / size[1]; }

// Matrix units. Operands of a lane are where the pointers say.
enum { MFMA_F16, MFMA_BF16, MFMA_F32, WMMA_F16, WMMA_BF16, WMMA12_F16, WMMA12_BF16 };
static const void *left[MOST], *right[MOST], *sums[MOST];
static void *result[MOST];

static float number(int kind, const void *from, int e) {
    uint32_t bits = 0;
    float f;
    switch (kind) {
    case MFMA_F32: return ((const float *)from)[e];
    case MFMA_F16: case WMMA_F16: case WMMA12_F16: return ((const _Float16 *)from)[e];
    default:
        bits = (uint32_t)((const uint16_t *)from)[e] << 16;
        memcpy(&f, &bits, 4);
        return f;
    }
}
// Row of a (column of b) and term of element e of a lane.
static void of_factor(int kind, int lane, int e, int *row, int *k) {
    *row = lane % 16;
    switch (kind) {
    case MFMA_F32: *k = lane / 16; break;
    case MFMA_F16: case MFMA_BF16: *k = lane / 16 * 4 + e; break;
    case WMMA_F16: case WMMA_BF16: *k = e; break;
    default: *k = lane / 16 * 8 + e; break;
    }
}
static int row_of_sum(int kind, int lane, int e) {
    switch (kind) {
    case MFMA_F32: case MFMA_F16: case MFMA_BF16: return lane / 16 * 4 + e;
    case WMMA_F16: case WMMA_BF16: return 2 * e + lane / 16;
    default: return lane / 16 * 8 + e;
    }
}
void matrix(int kind, const void *a, const void *b, const void *c, void *d) NAMED("amd.matrix");
void matrix(int kind, const void *a, const void *b, const void *c, void *d) {
    int lanes = kind <= MFMA_F32 ? 64 : 32, first = me / wave * wave;
    if (wave != lanes) die("a matrix instruction for waves of another width");
    if (lanes_here() != lanes) die("a matrix instruction of a part of a wave");
    left[me] = a, right[me] = b, sums[me] = c, result[me] = d;
    struct meeting *m = &waves[me / wave];
    meet(m, "a matrix instruction");
    if (m->come == lanes) {
        float x[16][16], y[16][16];
        int set[16][16] = {{0}};
        int each = kind == MFMA_F32 ? 1 : kind <= MFMA_BF16 ? 4 : kind <= WMMA_BF16 ? 16 : 8;
        int terms = kind == MFMA_F32 ? 4 : 16, of_sums = lanes == 64 ? 4 : 8;
        for (int l = 0; l < lanes; l++)
            for (int e = 0; e < each; e++) {
                int i, k;
                of_factor(kind, l, e, &i, &k);
                float p = number(kind, left[first + l], e), q = number(kind, right[first + l], e);
                if (set[i][k] && (memcmp(&x[i][k], &p, 4) || memcmp(&y[k][i], &q, 4)))
                    die("halves of a wave disagree in a factor");
                x[i][k] = p, y[k][i] = q, set[i][k] = 1;
            }
        for (int l = 0; l < lanes; l++)
            for (int e = 0; e < of_sums; e++) {
                int i = row_of_sum(kind, l, e), j = l % 16;
                float s = ((const float *)sums[first + l])[e];
                for (int k = 0; k < terms; k++) s = fmaf(x[i][k], y[k][j], s);
                ((float *)result[first + l])[e] = s;
            }
    }
    leave(m, lanes);
}

static void workgroup(void) {
    memset(&everybody, 0, sizeof everybody);
    memset(waves, 0, sizeof waves);
    for (int i = 0; i < threads; i++) {
        done[i] = 0;
        if (!stack[i]) stack[i] = aligned_alloc(4096, STACK);
        void **top = (void **)((char *)stack[i] + STACK - 64);
        *--top = 0;                        // where `invocation` would go back to
        *--top = (void *)invocation;
        for (int r = 0; r < 6; r++) *--top = 0;
        at[i] = top;
    }
    for (int left = threads; left;) {
        long before = progress;
        left = 0;
        for (int n = 0; n < threads; n++) {
            me = order ? threads - 1 - n : n;
            if (done[me]) continue;
            change(&scheduler, at[me]);
            left += !done[me];
        }
        if (left && progress == before) die("waits for ever: some are gone, or wait elsewhere");
    }
}

// Runs all workgroups of a launch.
void amd_launch(kernel_fn *kernel, void *block, const int shape[7], int backwards) {
    running = kernel, params = block, wave = shape[0], order = backwards;
    for (int i = 0; i < 3; i++) size[i] = shape[1 + i];
    threads = size[0] * size[1] * size[2];
    for (group[2] = 0; group[2] < shape[6]; group[2]++)
        for (group[1] = 0; group[1] < shape[5]; group[1]++)
            for (group[0] = 0; group[0] < shape[4]; group[0]++) workgroup();
}

#ifndef AMD_LIBRARY
extern kernel_fn *kernels[];

int main(int argc, char **argv) {
    FILE *in = fopen(argv[3], "rb");
    uint64_t head[9];
    int shape[7];
    if (argc != 5 || !in || fread(head, 8, 9, in) != 9) return 2;
    for (int i = 0; i < 7; i++) shape[i] = head[i];
    uint64_t buffers = head[7], bytes = head[8], *len = calloc(buffers + 1, 8);
    char **data = calloc(buffers + 1, sizeof *data);
    char *block = calloc(1, bytes);
    if (fread(len, 8, buffers, in) != buffers || fread(block, 1, bytes, in) != bytes) return 2;
    for (uint64_t i = 0; i < buffers; i++) {
        // Vectors are aligned.
        data[i] = aligned_alloc(64, (len[i] + 127) / 64 * 64);
        if (fread(data[i], 1, len[i], in) != len[i]) return 2;
        memcpy(block + 8 * i, &data[i], 8);
    }
    amd_launch(kernels[atoi(argv[1])], block, shape, atoi(argv[2]));
    FILE *out = fopen(argv[4], "wb");
    for (uint64_t i = 0; i < buffers; i++) fwrite(data[i], 1, len[i], out);
    return fclose(out) != 0;
}
#endif
