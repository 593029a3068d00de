/* malloc for calls that check and are not timed: every block ends at pages that no one may touch,
 * and starts out as NaN. Alignment leaves up to 63 bytes between the two; they hold a canary.
 *
 * A kernel that runs past the end of its scratch, its outputs or its inputs is usually lucky and
 * gives right numbers; here it gets a segmentation fault. The same idea: B. Perens, Electric Fence,
 * 1987. Linked into the runner with -rdynamic, so that whatever it loads uses these too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul
#define FENCE (16 * PAGE)
#define SMALLEST_ALIGNMENT 16ul
#define UNWRITTEN 0xff /* a NaN in every floating-point type, -1 in every integer */

typedef struct { void* base; size_t mapped, size, alignment; } header;

static header* header_of(void* block) { return (header*)block - 1; }

/* By address, so that bytes copied from the end of another block differ. bench.py has it too. */
static uint8_t canary(const uint8_t* at) {
  return (uint8_t)(((uintptr_t)at * 0x9E3779B97F4A7C15ull) >> 56);
}

static uint8_t* fence_of(header h) { return (uint8_t*)h.base + h.mapped - FENCE; }

static void check_end(void* block) {
  static const char text[] = "something was written past the end of a block of memory; ";
  header h = *header_of(block);
  for (uint8_t* at = (uint8_t*)block + h.size; at < fence_of(h); at++)
    if (*at != canary(at) && write(2, text, sizeof text - 1)) abort();
}

static void* fenced(size_t size, size_t alignment) {
  if (alignment < SMALLEST_ALIGNMENT) alignment = SMALLEST_ALIGNMENT;
  if (size > PTRDIFF_MAX - FENCE - 4 * PAGE - alignment) return errno = ENOMEM, NULL;
  size_t room = (sizeof(header) + size + alignment + PAGE - 1) & ~(PAGE - 1);
  char* base = mmap(NULL, room + FENCE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return errno = ENOMEM, NULL;
  mprotect(base + room, FENCE, PROT_NONE);
  char* block = (char*)((uintptr_t)(base + room - size) & ~(alignment - 1));
  *header_of(block) = (header){base, room + FENCE, size, alignment};
  memset(block, UNWRITTEN, size);
  for (uint8_t* at = (uint8_t*)block + size; at < fence_of(*header_of(block)); at++)
    *at = canary(at);
  return block;
}

void* malloc(size_t size) { return fenced(size, SMALLEST_ALIGNMENT); }
void* aligned_alloc(size_t alignment, size_t size) { return fenced(size, alignment); }
void* memalign(size_t alignment, size_t size) { return fenced(size, alignment); }
void* valloc(size_t size) { return fenced(size, PAGE); }

int posix_memalign(void** block, size_t alignment, size_t size) {
  *block = fenced(size, alignment);
  return *block ? 0 : ENOMEM;
}

void free(void* block) {
  if (!block) return;
  check_end(block);
  header h = *header_of(block);
  munmap(h.base, h.mapped);
}

void* calloc(size_t count, size_t size) {
  size_t total;
  if (__builtin_mul_overflow(count, size, &total)) return errno = ENOMEM, NULL;
  void* block = fenced(total, SMALLEST_ALIGNMENT);
  return block ? memset(block, 0, total) : NULL;
}

void* realloc(void* block, size_t size) {
  if (!block) return malloc(size);
  void* other = fenced(size, header_of(block)->alignment);
  if (!other) return NULL;
  size_t had = header_of(block)->size;
  memcpy(other, block, had < size ? had : size);
  free(block);
  return other;
}

size_t malloc_usable_size(void* block) { return block ? header_of(block)->size : 0; }
