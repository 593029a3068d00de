/* Starts a program that reads hostile text, a compiler: in namespaces, under Landlock and seccomp.
 *
 * argv: flags for unshare, whether there are Landlock rules, bytes of the filter of system calls,
 * the folder to run in, then the program and its arguments. Descriptors: 3 Landlock rules, 4 the filter. Exits with 97
 * where a wall cannot be put up; then nothing was started.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LANDLOCK_RESTRICT_SELF 446
#define MOST_STEPS 4096

static void fail(const char* what) {
  perror(what);
  exit(97);
}

static void put(const char* path, const char* text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) fail(path);
  close(fd);
}

/* Without a map of its user, a process in a namespace of its own can create no file. */
static void enter_namespaces(int flags) {
  char map[64];
  unsigned user = getuid(), group = getgid();
  if (unshare(flags) != 0) fail("unshare");
  put("/proc/self/setgroups", "deny");
  snprintf(map, sizeof map, "%u %u 1", user, user);
  put("/proc/self/uid_map", map);
  snprintf(map, sizeof map, "%u %u 1", group, group);
  put("/proc/self/gid_map", map);
}

int main(int argc, char** argv) {
  static struct sock_filter filter[MOST_STEPS];
  if (argc < 6) return 64;
  int flags = atoi(argv[1]), has_rules = argv[2][0] == '1';
  size_t bytes = strtoul(argv[3], NULL, 10), got = 0;
  if (bytes > sizeof filter) return 64;
  while (got < bytes) {
    ssize_t n = read(4, (char*)filter + got, bytes - got);
    if (n <= 0) fail("filter");
    got += (size_t)n;
  }
  if (chdir(argv[4]) != 0) fail(argv[4]);
  if (flags) enter_namespaces(flags);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("no_new_privs");
  if (has_rules && syscall(LANDLOCK_RESTRICT_SELF, 3, 0) != 0) fail("landlock");
  syscall(SYS_close_range, 3u, ~0u, 0u);
  struct sock_fprog program = {(unsigned short)(bytes / sizeof *filter), filter};
  if (bytes && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) fail("seccomp");
  execv(argv[5], argv + 5);
  fail(argv[5]);
}
