// Runs emitted kernels: reads launches from the standard input, writes what became of their buffers.
//
// A launch is words of 4 bytes: kernel, groups (3), threads (3), size of SIMD-groups, bytes of the
// parameters, buffers, bytes of each; then the bytes, parameters first. The answer is a byte: 0,
// then the bytes of all buffers, or 1, then a word and as many bytes of a sentence.
//
// A threadgroup is fibers of one thread of the system. A fiber runs until it waits for its
// SIMD-group or for the threadgroup. Each byte of memory keeps its accesses since the last
// barrier, as in the interpreter: to be out of order here is a fault, whatever comes of it.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "metal_stdlib"
#undef kernel
#undef device
#undef constant
#undef threadgroup
#undef thread

#ifndef __x86_64__
#error "fibers are switched by instructions of x86-64"
#endif

/// Saves what a function must keep, and goes on where another fiber did so.
extern "C" void standin_switch(void **from, void *to);
asm(R"(
.text
.globl standin_switch
standin_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

enum State { READY, MEETS, WAITS, DONE };
struct Fiber {
  void *stack_pointer;
  State state;
  int kind;
  uint turn;
};
/// The last access to a byte: since which barrier, in which group, by which thread or by many.
struct Access {
  uint32_t epoch, group;
  uint16_t by;
  bool many;
};
struct Byte {
  Access store, load, atomic;
};

static const size_t STACK = 256 << 10;
static const uint MOST = 1024;
static Fiber fibers[MOST];
static char *stacks;
static void *scheduler;
static uint current, threads, lanes;
static uint32_t epoch, group, before;
static char shown[2][MOST][16];
static char fault[400];

struct {
  uint kernel, groups[3], threads[3], lanes, param_bytes, buffers;
} head;
static StandinPointer pointers[64];
static uint32_t lengths[64];
static char *params;
static uint3 group_id, group_count;

/// Memory between which nothing may be accessed.
static const size_t GAP = 4096;
static char *arena;
static size_t arena_bytes;
static Byte *arena_shadow;
extern char __bss_start, _end;
static Byte *static_shadow;

static void to_scheduler() { standin_switch(&fibers[current].stack_pointer, scheduler); }
/// Says what is wrong; the launch ends with the first fault.
static void says(const char *what, const void *at) {
  if (fault[0] == 0) {
    long b = -1;
    for (uint i = 0; i < head.buffers; i++)
      if ((char *)at >= (char *)pointers[i].at - GAP / 2 && (char *)at < (char *)pointers[i].at + lengths[i] + GAP / 2) b = i;
    char place[64];
    if (at == nullptr)
      snprintf(place, sizeof place, "%s", "");
    else if (b >= 0)
      snprintf(place, sizeof place, ", byte %ld of buffer %ld", (long)((char *)at - (char *)pointers[b].at), b);
    else
      snprintf(place, sizeof place, ", threadgroup memory");
    snprintf(fault, sizeof fault, "kernel %u, group %u, thread %u: %s%s", head.kernel, group - before - 1, current, what, place);
  }
}
/// The same, in a fiber, which does not go on.
static void fails(const char *what, const void *at) {
  says(what, at);
  to_scheduler();
}

/// Has another one accessed it so that there is no order?
static bool races(const Access &a) {
  if (a.group == 0) return false;
  if (a.group != group) return true;
  return a.epoch == epoch && (a.many || a.by != current);
}
static void remember(Access &a) {
  bool same = a.group == group && a.epoch == epoch;
  bool many = a.group != 0 && a.group != group;
  a.many = same && (a.many || a.by != current);
  a.group = many ? UINT32_MAX : group;
  a.epoch = epoch;
  a.by = uint16_t(current);
}
enum Kind { LOAD, STORE, ATOMIC };
static void accesses(const void *at, size_t size, Kind kind) {
  char *p = (char *)at;
  if (p >= stacks && p < stacks + MOST * STACK) return;
  if (p >= (char *)&head && p < (char *)(&head + 1)) return;
  if (p >= (char *)pointers && p < (char *)(pointers + 64)) return;
  if (p >= params && p + size <= params + head.param_bytes && kind == LOAD) return;
  Byte *bytes = nullptr;
  bool shared = false;
  if (p >= arena && p < arena + arena_bytes) {
    for (uint i = 0; i < head.buffers; i++)
      if (p >= (char *)pointers[i].at && p + size <= (char *)pointers[i].at + lengths[i]) bytes = arena_shadow + (p - arena);
  } else if (p >= &__bss_start && p < &_end) {
    bytes = static_shadow + (p - &__bss_start);
    shared = true;
  }
  if (bytes == nullptr) return fails("an access out of bounds", at);
  for (size_t i = 0; i < size; i++) {
    Byte &b = bytes[i];
    // Of another group it holds nothing.
    if (shared && b.store.group != group && b.atomic.group != group) {
      if (kind != STORE) return fails("threadgroup memory is loaded that was never stored to", at);
      b = Byte{};
    }
    if (kind != LOAD && races(b.load)) return fails("a store races with a load", at);
    if (races(b.store)) return fails(kind == STORE ? "two stores race" : "a load races with a store", at);
    if (kind != ATOMIC && races(b.atomic)) return fails("an access races with an atomic", at);
    remember(kind == LOAD ? b.load : kind == STORE ? b.store : b.atomic);
  }
}

extern "C" {
void standin_atomic(const void *place) { accesses(place, 4, ATOMIC); }
void standin_barrier() {
  fibers[current].state = WAITS;
  to_scheduler();
}
void standin_meet(int kind) {
  fibers[current].state = MEETS;
  fibers[current].kind = kind;
  to_scheduler();
}
void *standin_shown() {
  uint turn = fibers[current].turn ^= 1;
  return shown[turn][current];
}
const void *standin_shown_by(uint lane) {
  if (lane >= lanes) fails("a lane that the SIMD-group has not", nullptr);
  return shown[fibers[current].turn][current / lanes * lanes + lane];
}
uint standin_lane() { return current % lanes; }

// What instrumented code calls.
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
#define SEEN(bytes)                                                          \
  void __tsan_read##bytes(void *p) { accesses(p, bytes, LOAD); }             \
  void __tsan_write##bytes(void *p) { accesses(p, bytes, STORE); }           \
  void __tsan_unaligned_read##bytes(void *p) { accesses(p, bytes, LOAD); }   \
  void __tsan_unaligned_write##bytes(void *p) { accesses(p, bytes, STORE); }
SEEN(1)
SEEN(2)
SEEN(4)
SEEN(8)
SEEN(16)
void *__tsan_memcpy(void *to, const void *from, uint64_t n) {
  accesses(from, n, LOAD);
  accesses(to, n, STORE);
  return memcpy(to, from, n);
}
void *__tsan_memmove(void *to, const void *from, uint64_t n) {
  accesses(from, n, LOAD);
  accesses(to, n, STORE);
  return memmove(to, from, n);
}
void *__tsan_memset(void *to, int v, uint64_t n) {
  accesses(to, n, STORE);
  return memset(to, v, n);
}
}

/// What C++ leaves undefined, and integers of the IR do not, is a trap (-fsanitize-trap).
static void on_trap(int) { fails("an integer operation that C++ leaves undefined", nullptr); }
static void on_crash(int) { fails("an access that the system refuses", nullptr); }

static void fiber_main() {
  uint x = head.threads[0], y = head.threads[1];
  uint3 local = {current % x, current / x % y, current / (x * y)};
  standin_entries[head.kernel](pointers, params, group_id, group_count, local, current);
  fibers[current].state = DONE;
  to_scheduler();
}

static void run_fiber(uint i) {
  current = i;
  fibers[i].state = READY;
  standin_switch(&scheduler, fibers[i].stack_pointer);
}

/// Runs a SIMD-group until all of it waits, or is done.
static void run_lanes(uint first) {
  uint end = first + lanes < threads ? first + lanes : threads;
  for (;;) {
    uint meets = 0;
    for (uint i = first; i < end; i++) {
      run_fiber(i);
      if (fault[0]) return;
      meets += fibers[i].state == MEETS;
    }
    current = first;
    if (meets == 0) return;
    bool same = meets == end - first && meets == lanes;
    for (uint i = first; i < end; i++) same &= fibers[i].kind == fibers[first].kind;
    if (!same) return says("not all lanes come to an exchange together", nullptr);
  }
}

static void run_group() {
  for (uint i = 0; i < threads; i++) {
    uintptr_t top = uintptr_t(stacks + (i + 1) * STACK);
    void **p = (void **)(top - 16);
    *p = (void *)fiber_main;
    p -= 6;
    memset(p, 0, 48);
    fibers[i] = Fiber{p, READY, 0, 0};
  }
  for (;;) {
    epoch++;
    uint done = 0;
    for (uint first = 0; first < threads && !fault[0]; first += lanes) run_lanes(first);
    if (fault[0]) return;
    for (uint i = 0; i < threads; i++) done += fibers[i].state == DONE;
    if (done == threads) return;
    if (done > 0) return says("only some threads come to a barrier", nullptr);
  }
}

static bool take(void *to, size_t n) { return n == 0 || fread(to, 1, n, stdin) == n; }
static void give(const void *from, size_t n) {
  if (n > 0 && fwrite(from, 1, n, stdout) != n) exit(2);
}

static void launch() {
  fault[0] = 0;
  threads = head.threads[0] * head.threads[1] * head.threads[2];
  lanes = head.lanes;
  // Groups are counted through all launches, so that what threadgroup memory held is another
  // one's.
  before = group;
  memset(arena_shadow, 0, arena_bytes * sizeof(Byte));
  group_count = {head.groups[0], head.groups[1], head.groups[2]};
  for (uint z = 0; z < head.groups[2]; z++)
    for (uint y = 0; y < head.groups[1]; y++)
      for (uint x = 0; x < head.groups[0] && !fault[0]; x++) {
        group++;
        group_id = {x, y, z};
        run_group();
      }
}

int main() {
  void *room = mmap(nullptr, MOST * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return 2;
  stacks = (char *)room;
  struct sigaction action = {};
  action.sa_flags = SA_NODEFER;
  action.sa_handler = on_trap;
  sigaction(SIGILL, &action, nullptr);
  sigaction(SIGTRAP, &action, nullptr);
  action.sa_handler = on_crash;
  sigaction(SIGSEGV, &action, nullptr);
  static_shadow = (Byte *)calloc(&_end - &__bss_start, sizeof(Byte));
  while (take(&head, sizeof head)) {
    if (head.buffers > 64 || !take(lengths, 4 * head.buffers)) return 2;
    params = (char *)aligned_alloc(64, (head.param_bytes + 63) / 64 * 64 + 64);
    if (!take(params, head.param_bytes)) return 2;
    arena_bytes = GAP;
    for (uint i = 0; i < head.buffers; i++) arena_bytes += (lengths[i] + 255) / 256 * 256 + GAP;
    arena = (char *)aligned_alloc(256, (arena_bytes + 255) / 256 * 256);
    arena_shadow = (Byte *)malloc(arena_bytes * sizeof(Byte));
    char *next = arena + GAP;
    for (uint i = 0; i < head.buffers; i++) {
      pointers[i].at = next;
      if (!take(next, lengths[i])) return 2;
      next += (lengths[i] + 255) / 256 * 256 + GAP;
    }
    launch();
    char failed = fault[0] != 0;
    give(&failed, 1);
    if (failed) {
      uint32_t n = strlen(fault);
      give(&n, 4);
      give(fault, n);
    } else {
      for (uint i = 0; i < head.buffers; i++) give(pointers[i].at, lengths[i]);
    }
    free(params);
    free(arena);
    free(arena_shadow);
  }
  fflush(stdout);
  return 0;
}
