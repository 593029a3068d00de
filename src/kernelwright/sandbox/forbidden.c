/* Tries what a Candidate must not do, as a Candidate would: a kernel, run by the runner.
 *
 * Inputs: int64[1], the judge's process id; uint8[n], the path of a file that the user owns. Output:
 * uint8[acts][WIDTH]: 1 where the act was denied, 2 where it succeeded, 0 past the last; its name.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define WIDTH 48

typedef struct {
  void* data;
  int32_t dtype, ndim;
  int64_t sizes[8], strides[8];
} kw_tensor;

static pid_t judge;
static const char* file;
static char beside[4096];
static void* input;

static int opens(const char* path, int flags) {
  int fd = open(path, flags, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

static int opens_of_judge(const char* name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)judge, name);
  return opens(path, O_RDONLY);
}

static int child(long pid) {
  if (pid == 0) _exit(0);
  if (pid > 0) waitpid((pid_t)pid, NULL, 0);
  return pid > 0;
}

static int socket_of(int family, int type) {
  int fd = socket(family, type, 0);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

static int call_gives_fd(long fd) {
  if (fd >= 0) close((int)fd);
  return fd >= 0;
}

static int read_file(void) { return opens(file, O_RDONLY); }
static int read_passwd(void) { return opens("/etc/passwd", O_RDONLY); }
static int list_root(void) { return opens("/", O_RDONLY | O_DIRECTORY); }
static int write_file(void) { return opens(file, O_WRONLY); }
static int create_file(void) { return opens(beside, O_WRONLY | O_CREAT) && !unlink(beside); }
static int create_in_shm(void) {
  const char* path = "/dev/shm/kernelwright-forbidden";
  return opens(path, O_RDWR | O_CREAT) && !unlink(path);
}
static int truncate_file(void) { return !truncate(file, 1); }
static int rename_file(void) { return !rename(file, beside) && !rename(beside, file); }
static int link_file(void) { return !link(file, beside) && !unlink(beside); }
static int symlink_file(void) { return !symlink(file, beside) && !unlink(beside); }
static int make_folder(void) { return !mkdir(beside, 0700) && !rmdir(beside); }
static int make_pipe_file(void) { return !mkfifo(beside, 0600) && !unlink(beside); }
/* These two are looked at afterwards: a filter may only pretend that they were done. */
static int change_mode(void) {
  struct stat is;
  return !chmod(file, 0640) && !stat(file, &is) && (is.st_mode & 0777) == 0640 && !chmod(file, 0600);
}
static int change_owner(void) { return !chown(file, getuid(), getgid()); }
static int change_times(void) {
  struct timespec then[2] = {{1000000, 0}, {1000000, 0}};
  struct stat is;
  return !utimensat(AT_FDCWD, file, then, 0) && !stat(file, &is) && is.st_mtime == 1000000;
}
static int set_attribute(void) { return !setxattr(file, "user.kernelwright", "1", 1, 0); }
static int internet_socket(void) { return socket_of(AF_INET, SOCK_STREAM); }
static int unix_socket(void) { return socket_of(AF_UNIX, SOCK_STREAM); }
static int netlink_socket(void) { return socket_of(AF_NETLINK, SOCK_RAW); }
static int socket_pair(void) {
  int fds[2];
  return !socketpair(AF_UNIX, SOCK_STREAM, 0, fds) && !close(fds[0]) && !close(fds[1]);
}
static int start_process(void) { return child(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }
static int start_process_clone3(void) {
  struct clone_args args = {.exit_signal = SIGCHLD};
  return child(syscall(SYS_clone3, &args, sizeof args));
}
static int run_program(void) {
  return execve("/kernelwright-absent", NULL, NULL) && errno == ENOENT;
}
static int signal_judge(void) { return !kill(judge, 0); }
static int signal_everyone(void) { return !kill(-1, 0); }
static int trace_judge(void) {
  if (ptrace(PTRACE_SEIZE, judge, 0, 0)) return 0;
  ptrace(PTRACE_INTERRUPT, judge, 0, 0); /* only a stopped process can be let go */
  waitpid(judge, NULL, __WALL);
  ptrace(PTRACE_DETACH, judge, 0, 0);
  return 1;
}
static int read_memory_of_judge(void) {
  char byte;
  struct iovec here = {&byte, 1}, there = {(void*)4096, 1};
  return process_vm_readv(judge, &here, 1, &there, 1, 0) >= 0 || errno == EFAULT;
}
static int open_memory_of_judge(void) { return opens_of_judge("mem"); }
static int read_environment_of_judge(void) { return opens_of_judge("environ"); }
static int read_command_of_judge(void) { return opens_of_judge("cmdline"); }
static int open_own_memory(void) { return opens("/proc/self/mem", O_RDWR); }
static int handle_on_judge(void) { return call_gives_fd(syscall(SYS_pidfd_open, judge, 0)); }
static int pin_judge(void) {
  cpu_set_t cores;
  return !sched_getaffinity(judge, sizeof cores, &cores) &&
         !sched_setaffinity(judge, sizeof cores, &cores);
}
static int priority_of_judge(void) {
  errno = 0;
  int now = getpriority(PRIO_PROCESS, (id_t)judge);
  return !errno && !setpriority(PRIO_PROCESS, (id_t)judge, now);
}
static int limits_of_judge(void) {
  struct rlimit now;
  return !prlimit(judge, RLIMIT_NOFILE, NULL, &now);
}
static int make_memory_file(void) { return call_gives_fd(memfd_create("x", 0)); }
static int mount_folder(void) {
  int made = !mkdir(beside, 0700);
  const char* at = made ? beside : "/tmp";
  int mounted = !mount("none", at, "tmpfs", 0, NULL) && !umount(at);
  if (made) rmdir(beside);
  return mounted;
}
static int new_namespace(void) { return !unshare(CLONE_NEWUTS) || !unshare(CLONE_NEWUSER); }
static int change_root(void) { return !chroot("/"); }
static int io_uring(void) {
  char params[256] = {0};
  return call_gives_fd(syscall(SYS_io_uring_setup, 1, params));
}
static int load_bpf(void) {
  uint32_t map[32] = {2, 4, 4, 1}; /* an array map of one element */
  return call_gives_fd(syscall(SYS_bpf, 0, map, sizeof map));
}
static int performance_event(void) {
  uint64_t attr[16] = {1 | (128ull << 32)}; /* software event, CPU clock */
  return call_gives_fd(syscall(SYS_perf_event_open, attr, 0, -1, -1, 0));
}
static int fault_handler(void) { return call_gives_fd(syscall(SYS_userfaultfd, 1)); }
static int use_keyring(void) { return syscall(SYS_keyctl, 0, -3, 1) >= 0; }
static int filter_own_calls(void) {
  uint32_t action = 0x7fff0000; /* is this action known? */
  return !syscall(SYS_seccomp, 2, 0, &action);
}
static int shared_memory(void) {
  int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
  if (id >= 0) shmctl(id, IPC_RMID, NULL);
  return id >= 0;
}
static int watch_files(void) { return call_gives_fd(syscall(SYS_inotify_init1, 0)); }
static int change_personality(void) { return syscall(SYS_personality, 0xffffffffu) >= 0; }
static int write_inputs(void) { return !mprotect(input, 4096, PROT_READ | PROT_WRITE); }
static int inherited_descriptor(void) {
  for (int fd = 5; fd < 1024; fd++)
    if (fcntl(fd, F_GETFD) >= 0) return 1;
  return 0;
}

#define ACT(name) {#name, name}
static const struct { const char* name; int (*succeeds)(void); } acts[] = {
  ACT(read_file), ACT(read_passwd), ACT(list_root), ACT(write_file), ACT(create_file),
  ACT(create_in_shm), ACT(rename_file), ACT(link_file), ACT(symlink_file), ACT(make_folder),
  ACT(make_pipe_file), ACT(change_mode), ACT(change_owner), ACT(change_times), ACT(set_attribute),
  ACT(truncate_file), ACT(internet_socket), ACT(unix_socket), ACT(netlink_socket), ACT(socket_pair),
  ACT(start_process), ACT(start_process_clone3), ACT(run_program), ACT(signal_judge),
  ACT(signal_everyone), ACT(trace_judge), ACT(read_memory_of_judge), ACT(open_memory_of_judge),
  ACT(read_environment_of_judge), ACT(read_command_of_judge), ACT(open_own_memory),
  ACT(handle_on_judge), ACT(pin_judge), ACT(priority_of_judge), ACT(limits_of_judge),
  ACT(make_memory_file), ACT(mount_folder), ACT(change_root), ACT(io_uring), ACT(load_bpf),
  ACT(performance_event), ACT(fault_handler), ACT(use_keyring), ACT(filter_own_calls),
  ACT(shared_memory), ACT(watch_files), ACT(change_personality), ACT(write_inputs),
  ACT(inherited_descriptor), ACT(new_namespace),
};

void kernel(const kw_tensor* in, int n_in, const kw_tensor* out, int n_out) {
  (void)n_in, (void)n_out;
  judge = (pid_t)((const int64_t*)in[0].data)[0];
  input = in[0].data;
  file = (const char*)in[1].data;
  snprintf(beside, sizeof beside, "%s.beside", file);
  uint8_t* row = out[0].data;
  memset(row, 0, (size_t)(out[0].sizes[0] * WIDTH));
  for (size_t i = 0; i < sizeof acts / sizeof *acts && (int64_t)i < out[0].sizes[0]; i++) {
    row[i * WIDTH] = acts[i].succeeds() ? 2 : 1;
    snprintf((char*)row + i * WIDTH + 1, WIDTH - 1, "%s", acts[i].name);
  }
}
