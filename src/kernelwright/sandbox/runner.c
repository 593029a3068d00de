/* The native worker: maps the inputs, loads one shared object, calls it when told to.
 *
 * No Python lives here, so a Candidate finds no frame to walk, no collector to ask and no function
 * to patch. Descriptors: 3 setup and wake messages in, 4 replies out, 5 the arena, 6 Landlock rules.
 * argv: the shared object, its symbol, the number of threads, resource limits, the judge's process
 * id, flags for unshare, and whether there are Landlock rules. The structures are those of wire.py.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define MAX_DIMS 8
#define MAX_RELEASE 8
#define MAX_CALLS_HELD 64
#define SETUP_MAGIC 0x4B575355u
#define WAKE_MAGIC 0x4B57474Fu
#define REPLY_MAGIC 0x4B575245u
#define BORN_MAGIC 0x4B57424Fu
#define LANDLOCK_RESTRICT_SELF 446
#define READY_SEQ 0xFFFFFFFFu

enum status { OK = 0, LOAD_FAILED = 2, OUT_OF_MEMORY = 3 };

#pragma pack(push, 1)
typedef struct { uint32_t magic, n_slots, n_outputs, n_filter; uint64_t arena_bytes; } setup_t;
typedef struct {
  uint64_t address, nbytes;
  int32_t dtype, ndim;
  int64_t sizes[MAX_DIMS], strides[MAX_DIMS];
} wire_tensor;
typedef struct { uint32_t magic, seq, n_release, release[MAX_RELEASE]; } wake_t;
typedef struct { uint32_t magic, seq, status, n_outputs; } reply_t;
#pragma pack(pop)

typedef struct {
  void* data;
  int32_t dtype, ndim;
  int64_t sizes[MAX_DIMS], strides[MAX_DIMS];
} kw_tensor;
typedef void (*kernel_t)(const kw_tensor*, int, const kw_tensor*, int);

static void read_exactly(int fd, void* to, size_t n) {
  for (size_t got = 0; got < n;) {
    ssize_t r = read(fd, (char*)to + got, n - got);
    if (r < 0 && errno == EINTR) continue;
    if (r <= 0) _exit(0); /* the judge is gone */
    got += (size_t)r;
  }
}

static void write_exactly(int fd, const void* from, size_t n) {
  for (size_t put = 0; put < n;) {
    ssize_t r = write(fd, (const char*)from + put, n - put);
    if (r < 0 && errno == EINTR) continue;
    if (r <= 0) _exit(0);
    put += (size_t)r;
  }
}

static void limit(int resource, const char* value) {
  struct rlimit r = {strtoull(value, NULL, 10), strtoull(value, NULL, 10)};
  if (r.rlim_cur) setrlimit((__rlimit_resource_t)resource, &r);
}

static void to_kernel_tensor(kw_tensor* to, const wire_tensor* from, void* data) {
  to->data = data;
  to->dtype = from->dtype;
  to->ndim = from->ndim;
  memcpy(to->sizes, from->sizes, sizeof to->sizes);
  memcpy(to->strides, from->strides, sizeof to->strides);
}

/* 64-byte aligned memory from the same malloc that torch's CPU allocator uses. Not posix_memalign:
 * glibc leaves the cut-off ends of a large aligned block in its thread cache, where they keep the
 * block from merging with its neighbours, and the next eight calls fault in fresh pages. */
#if !defined(FENCED)
static void* allocate(size_t nbytes) {
  char* block = malloc(nbytes + 64 + sizeof(void*));
  if (!block) return NULL;
  char* data = (char*)(((uintptr_t)block + sizeof(void*) + 63) & ~(uintptr_t)63);
  ((void**)data)[-1] = block;
  return data;
}

static void release(void* data) {
  if (data) free(((void**)data)[-1]);
}

static void* place_input(const wire_tensor* spec, char* arena) { return arena + spec->address; }
static void refresh_input(const kw_tensor* input, const wire_tensor* spec, const char* arena) {
  (void)input, (void)spec, (void)arena;
}
#else /* blocks end at a fence (fence.c), and inputs are copies that do */
static void* allocate(size_t nbytes) { return aligned_alloc(64, nbytes); }
static void release(void* data) { free(data); }

/* Whole pages, so that they can be read-only as the arena is. */
static void* place_input(const wire_tensor* spec, char* arena) {
  (void)arena;
  size_t room = (spec->nbytes + 4095) & ~4095ul;
  char* base = mmap(NULL, room + 16 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) _exit(66);
  return base + ((room - spec->nbytes) & ~63ul);
}

static void refresh_input(const kw_tensor* input, const wire_tensor* spec, const char* arena) {
  char* base = (char*)((uintptr_t)input->data & ~4095ul);
  size_t room = (spec->nbytes + 4095) & ~4095ul;
  if (!room) return;
  mprotect(base, room, PROT_READ | PROT_WRITE);
  memcpy(input->data, arena + spec->address, spec->nbytes);
  mprotect(base, room, PROT_READ);
}
#endif

static int allocate_outputs(kw_tensor* outputs, const wire_tensor* specs, int n) {
  for (int i = 0; i < n; i++) {
    void* data = allocate(specs[i].nbytes);
    if (!data) return 0;
    to_kernel_tensor(&outputs[i], &specs[i], data);
  }
  return 1;
}

static kernel_t load(const char* path, const char* symbol) {
  void* lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!lib) {
    fprintf(stderr, "%s\n", dlerror());
    return NULL;
  }
  kernel_t kernel = (kernel_t)dlsym(lib, symbol);
  if (!kernel) fprintf(stderr, "the shared object does not define %s\n", symbol);
#if defined(__x86_64__)
  /* A shared object linked with -ffast-math sets flush-to-zero in the thread that loads it (gcc
   * before 13, crtfastmath.o); threads made later inherit it. Back to the default. */
  _mm_setcsr(0x1F80);
#endif
  return kernel;
}

/* The first process of a namespace does not die of SIGABRT, so that abort() would end as SIGSEGV. */
static void on_abort(int signal) {
  static const char text[] = "abort() was called\n";
  (void)signal;
  if (write(2, text, sizeof text - 1) < 0) _exit(135);
  _exit(134);
}

/* Namespaces of processes hold only for children: goes on in one, which the judge adopts. It sends
 * the setup when this process is gone, so that the signal of a parent's death can be set then. */
static void enter_namespaces(int flags) {
  if (unshare(flags) != 0) {
    perror("unshare");
    _exit(68);
  }
  pid_t child = fork();
  if (child < 0) _exit(68);
  if (child == 0) {
    setsid();
    return;
  }
  uint32_t born[2] = {BORN_MAGIC, (uint32_t)child};
  write_exactly(4, born, sizeof born);
  _exit(0);
}

/* The last steps before code that is not trusted comes in: its constructors run inside dlopen. */
static void lock_down(int has_rules, const struct sock_filter* filter, unsigned short n) {
  struct sock_fprog program = {n, (struct sock_filter*)filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(69);
  if (has_rules && syscall(LANDLOCK_RESTRICT_SELF, 6, 0) != 0) _exit(69);
  close(6);
  if (n && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) _exit(69);
}

int main(int argc, char** argv) {
  if (argc != 10) return 64;
  const char *path = argv[1], *symbol = argv[2];
  int namespaces = (int)strtol(argv[8], NULL, 10), has_rules = argv[9][0] == '1';
  syscall(SYS_close_range, 7u, ~0u, 0u); /* whatever the judge's own process left inheritable */
  if (namespaces) enter_namespaces(namespaces);
  signal(SIGABRT, on_abort);
  setenv("OMP_NUM_THREADS", argv[3], 1);
  limit(RLIMIT_AS, argv[4]);
  limit(RLIMIT_FSIZE, argv[5]);
  limit(RLIMIT_CPU, argv[6]);
  struct rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);

  setup_t setup;
  read_exactly(3, &setup, sizeof setup);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!namespaces && getppid() != (pid_t)strtol(argv[7], NULL, 10)) return 0; /* the judge died */
  if (setup.magic != SETUP_MAGIC) return 65;
  int n_in = (int)setup.n_slots, n_out = (int)setup.n_outputs;
  wire_tensor* specs = calloc((size_t)(n_in + n_out + 1), sizeof *specs);
  read_exactly(3, specs, (size_t)(n_in + n_out) * sizeof *specs);
  struct sock_filter* filter = calloc(setup.n_filter + 1, sizeof *filter);
  read_exactly(3, filter, setup.n_filter * sizeof *filter);
  char* arena = NULL;
  if (setup.arena_bytes) {
    arena = mmap(NULL, setup.arena_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, 5, 0);
    if (arena == MAP_FAILED) return 66;
  }
  close(5);

  kw_tensor* inputs = calloc((size_t)n_in + 1, sizeof *inputs);
  for (int i = 0; i < n_in; i++)
    to_kernel_tensor(&inputs[i], &specs[i], place_input(&specs[i], arena));
  kw_tensor* held[MAX_CALLS_HELD] = {0};
  uint32_t held_seq[MAX_CALLS_HELD] = {0};

  size_t reply_size = sizeof(reply_t) + (size_t)n_out * sizeof(wire_tensor);
  char* buffer = calloc(1, reply_size);
  reply_t* reply = (reply_t*)buffer;
  wire_tensor* where = (wire_tensor*)(buffer + sizeof(reply_t));
  memcpy(where, specs + n_in, (size_t)n_out * sizeof(wire_tensor));
  *reply = (reply_t){REPLY_MAGIC, READY_SEQ, OK, (uint32_t)n_out};
  for (int i = 0; i < n_out; i++) where[i].address = (uint64_t)(uintptr_t)arena;

  lock_down(has_rules, filter, (unsigned short)setup.n_filter);
  uint32_t locked[2] = {BORN_MAGIC, 0};
  write_exactly(4, locked, sizeof locked);
  kernel_t kernel = load(path, symbol);
  if (!kernel) reply->status = LOAD_FAILED;
  write_exactly(4, buffer, reply_size);
  if (!kernel) return 67;

  for (;;) {
    wake_t wake;
    read_exactly(3, &wake, sizeof wake);
    for (uint32_t r = 0; r < wake.n_release && r < MAX_RELEASE; r++)
      for (int h = 0; h < MAX_CALLS_HELD; h++)
        if (held[h] && held_seq[h] == wake.release[r]) {
          for (int i = 0; i < n_out; i++) release(held[h][i].data);
          free(held[h]);
          held[h] = NULL;
        }
    kw_tensor* outputs = calloc((size_t)n_out + 1, sizeof *outputs);
    reply->seq = wake.seq;
    reply->status = OK;
    if (!allocate_outputs(outputs, specs + n_in, n_out)) {
      reply->status = OUT_OF_MEMORY;
    } else {
      for (int i = 0; i < n_in; i++) refresh_input(&inputs[i], &specs[i], arena);
      kernel(inputs, n_in, outputs, n_out);
      for (int i = 0; i < n_out; i++) where[i].address = (uint64_t)(uintptr_t)outputs[i].data;
    }
    write_exactly(4, buffer, reply_size);
    for (int h = 0; h < MAX_CALLS_HELD; h++)
      if (!held[h]) {
        held[h] = outputs;
        held_seq[h] = wake.seq;
        break;
      }
  }
}
