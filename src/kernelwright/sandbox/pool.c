/* Where torch allocates from in a worker on a device: memory that the judge owns and shares with
 * this one process, so that the judge reads every output where it lies and never opens a handle
 * that the worker made.
 *
 * First fit over a sorted list of blocks. torch asks for whole segments of megabytes and keeps
 * them, so this is called a few times per Candidate.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

enum { MOST = 8192, ALIGN = 2 << 20 };

typedef struct {
  uintptr_t at;
  size_t size;
  int used;
} block;

static block blocks[MOST];
static int count;

void kw_pool_use(void* base, size_t size) {
  blocks[0] = (block){(uintptr_t)base, size, 0};
  count = 1;
}

void* kw_pool_alloc(ssize_t asked, int device, void* stream) {
  (void)device, (void)stream;
  size_t size = ((size_t)asked + ALIGN - 1) / ALIGN * ALIGN;
  for (int i = 0; i < count; i++) {
    if (blocks[i].used || blocks[i].size < size) continue;
    if (blocks[i].size > size) {
      if (count == MOST) return NULL;
      memmove(&blocks[i + 2], &blocks[i + 1], sizeof(block) * (count - i - 1));
      blocks[i + 1] = (block){blocks[i].at + size, blocks[i].size - size, 0};
      blocks[i].size = size;
      count++;
    }
    blocks[i].used = 1;
    return (void*)blocks[i].at;
  }
  return NULL; /* torch then frees what it keeps unused, tries again, and reports out of memory */
}

static void join(int i) {
  if (i < 0 || i + 1 >= count || blocks[i].used || blocks[i + 1].used) return;
  blocks[i].size += blocks[i + 1].size;
  memmove(&blocks[i + 1], &blocks[i + 2], sizeof(block) * (count - i - 2));
  count--;
}

void kw_pool_free(void* pointer, ssize_t size, int device, void* stream) {
  (void)size, (void)device, (void)stream;
  for (int i = 0; i < count; i++) {
    if (blocks[i].at != (uintptr_t)pointer) continue;
    blocks[i].used = 0;
    join(i);
    join(i - 1);
    return;
  }
}
